import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventOf, judgedEndpoint, problemOfService } from '../../src/events/event-objects.ts'

test('problemOfService is an Event of the Service for problems that all nodes see and for no others', () => {
  const of = (code: string, subject = 'service demo/web') =>
    problemOfService({
      code,
      about: 'object',
      subject,
      field: 'metadata.annotations[x]',
      message: '"y" is not allowed',
    })
  const occurrence = {
    regarding: { kind: 'Service', namespace: 'demo', name: 'web', apiVersion: 'v1' },
    type: 'Warning',
    reason: 'InvalidAnnotation',
    action: 'ReadAnnotations',
    note: 'metadata.annotations[x]: "y" is not allowed',
  }
  assert.deepEqual(of('invalid-annotation'), occurrence)
  assert.deepEqual(of('scheduler-missing'), { ...occurrence, reason: 'SchedulerMissing' })
  assert.deepEqual(of('no-room'), { ...occurrence, reason: 'NoRoom', action: 'ShareRoom' })
  for (const code of ['invalid-range', 'toString', '']) assert.equal(of(code), undefined)
  assert.equal(of('invalid-annotation', 'endpointslice demo/web'), undefined)
})

test('judgedEndpoint is an Event of the Service whose note is the same each time, and none for a trial', () => {
  const of = (kind: string) => judgedEndpoint('node0', { kind, owner: 'demo/web', realServer: '10.244.0.1:8080' })
  const regarding = { kind: 'Service', namespace: 'demo', name: 'web', apiVersion: 'v1' }
  assert.deepEqual(of('suspected'), {
    regarding,
    type: 'Warning',
    reason: 'EndpointDoesNotAnswer',
    action: 'JudgeEndpoints',
    note: 'endpoint 10.244.0.1:8080 returns no packet to node node0 and gets no new connections from it until it answers',
  })
  const answered = of('answered')
  assert.deepEqual([answered?.type, answered?.reason], ['Normal', 'EndpointAnswers'])
  for (const kind of ['tried', 'released']) assert.equal(of(kind), undefined)
})

test('eventOf cuts a note to the bytes that the API server accepts, between characters', () => {
  const regarding = { kind: 'Service', namespace: 'demo', name: 'web', apiVersion: 'v1' }
  const noteOf = (note: string): string =>
    eventOf({ regarding, type: 'Warning', reason: 'NoRoom', action: 'ShareRoom', note }, 'host', 1n).note ?? ''
  assert.equal(noteOf('a'.repeat(2000)), 'a'.repeat(1024))
  assert.equal(noteOf('ä'.repeat(1000)), 'ä'.repeat(512))
  assert.equal(noteOf(`abc${'😀'.repeat(500)}`), `abc${'😀'.repeat(255)}`)
})
