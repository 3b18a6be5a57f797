import assert from 'node:assert/strict'
import { test } from 'node:test'
import { problemOfService } from '../../src/events/event-objects.ts'

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
