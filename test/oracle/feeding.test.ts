/** What a case feeds the program: the merged configuration, and the objects of one step after the other. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ApiStore, type Json } from '../../dev/api-server/store.ts'
import type { Lists } from './case-file.ts'
import { merge, ServedObjects } from './feeding.ts'

describe('merge', () => {
  for (const [over, result] of [
    [{ ipvs: { scheduler: 'wrr' } }, { ipvs: { syncPeriod: '5s', scheduler: 'wrr' }, list: [1, 2] }],
    [{ list: [3] }, { ipvs: { syncPeriod: '5s' }, list: [3] }],
    [{ ipvs: null }, { list: [1, 2] }],
    [{ ipvs: { syncPeriod: null } }, { ipvs: {}, list: [1, 2] }],
    [{ node: { name: null, zone: 'a' } }, { ipvs: { syncPeriod: '5s' }, list: [1, 2], node: { zone: 'a' } }],
    [undefined, { ipvs: { syncPeriod: '5s' }, list: [1, 2] }],
  ] as const)
    it(`merges ${JSON.stringify(over)} into a configuration`, () =>
      assert.deepEqual(merge({ ipvs: { syncPeriod: '5s' }, list: [1, 2] }, over), result))
})

const object = (name: string, uid: string, spec: Json): Json & { readonly metadata: Json } => ({
  metadata: { name, namespace: 'demo', uid },
  spec,
})
const lists = (services: Lists['services']['items'], slices: Lists['services']['items'] = []): Lists => ({
  services: { items: services },
  endpointSlices: { items: slices },
  nodes: { items: [] },
})

/** The events of watches in each step. */
function eventsOf(...steps: readonly (readonly [Lists, (readonly Json[])?])[]): string[][] {
  const store = new ApiStore()
  const served = new ServedObjects(store)
  let events: string[] = []
  store.listeners.add(({ kind, before, after }) => {
    events.push(
      `${after === undefined ? 'delete' : before === undefined ? 'add' : 'change'} ${kind} ${(after ?? before)?.key}`,
    )
  })
  return steps.map(([list, apply]) => {
    events = []
    served.become(list, apply === undefined ? {} : { apply })
    return events
  })
}

describe('ServedObjects', () => {
  it('sends only changed objects', () => {
    const [web, api] = [object('web', '1', { a: 1 }), object('api', '2', {})]
    assert.deepEqual(
      eventsOf([lists([web, api])], [lists([object('web', '1', { a: 2 })])], [lists([object('web', '1', { a: 2 })])]),
      [
        ['add services demo/web', 'add services demo/api'],
        ['delete services demo/api', 'change services demo/web'],
        [],
      ],
    )
  })

  it('deletes an object that was made again under its name', () => {
    assert.deepEqual(eventsOf([lists([object('web', '1', {})])], [lists([object('web', '2', {})])])[1], [
      'delete services demo/web',
      'add services demo/web',
    ])
  })

  it('keeps the order in which a step applied them', () => {
    const apply = [
      { kind: 'EndpointSlice', metadata: { name: 'web-1', namespace: 'demo' } },
      { kind: 'Service', metadata: { name: 'web', namespace: 'demo' } },
    ]
    assert.deepEqual(eventsOf([lists([object('web', '1', {})], [object('web-1', '2', {})]), apply])[0], [
      'add endpointslices demo/web-1',
      'add services demo/web',
    ])
  })
})
