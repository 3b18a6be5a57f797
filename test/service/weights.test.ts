import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { schedulerWeights } from '../../src/ipvs/scheduler.ts'
import { AnnotationReader, annotationsText } from '../../src/service/annotations.ts'
import type { Frontend, FrontendKey } from '../../src/service/frontends.ts'
import {
  type NodeContext,
  READS_LOCAL_ADDRESSES,
  READS_NODE_LABELS,
  READS_ZONE,
} from '../../src/service/node-context.ts'
import type { Service } from '../../src/service/objects.ts'
import { parseWeights, weightOf } from '../../src/service/weights.ts'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { contributionOf } from '../support/contribution.ts'
import { countedBudget } from '../support/budgets.ts'
import { endpoint, service, slice } from '../support/objects.ts'

const node = (fields: Partial<NodeContext> = {}): NodeContext => ({
  nodeName: 'node0',
  zone: 'a',
  nodeIps: {},
  localAddresses: new Set(),
  nodePortAddresses: { IPv4: [], IPv6: [] },
  ...fields,
})

describe('weightOf', () => {
  it('is the weight of the first rule that is true, and of `other` where none is', () => {
    const rows: readonly (readonly [string, string | undefined, string | undefined, number])[] = [
      ['same-zone=10,other=2', 'a', 'a', 10],
      ['same-zone=10,other=2', 'b', 'a', 2],
      ['same-zone=10', 'b', 'a', 1],
      ['same-zone=10,other=2', undefined, 'a', 2],
      ['same-zone=10,other=2', 'a', undefined, 2],
      // A node without the label is in no zone, and neither is an endpoint without one.
      ['same-zone=10,other=2', undefined, '', 2],
      ['zone:a=5,zone:b=3', 'a', 'x', 5],
      ['zone:a=5,zone:b=3', 'b', 'x', 3],
      ['zone:a=5,zone:b=3', 'A', 'x', 1],
      ['zone:b=3,same-zone=10', 'b', 'b', 3],
      ['same-zone=10,zone:b=3', 'b', 'b', 10],
      [' same-zone=10 , other=65535 ', 'b', 'a', 65_535],
      ['other=7', 'a', 'a', 7],
    ]
    for (const [text, zone, nodeZone, expected] of rows) {
      const weights = parseWeights(text)
      assert.ok(weights, text)
      const candidate = endpoint({ address: '10.244.0.1', ...(zone === undefined ? {} : { zone }) })
      const found = weightOf(weights, candidate, node({ zone: nodeZone }))
      assert.equal(found, expected, `${text} ${zone} ${nodeZone}`)
    }
  })
})

describe('weightOf by a label of a node', () => {
  const nodeLabels = new Map<string, Readonly<Record<string, string>>>([
    ['node1', { pool: 'gold', 'a.example/empty': '', constructor: 'x' }],
    ['node2', { pool: 'silver' }],
  ])

  it('compares the label of the node that the endpoint runs on', () => {
    const rows: readonly (readonly [string, string, number])[] = [
      ['node-label:pool=gold=10,other=2', 'node1', 10],
      ['node-label:pool=gold=10,other=2', 'node2', 2],
      ['node-label:pool=gold=10,node-label:pool=silver=5', 'node2', 5],
      ['node-label:a.example/empty==7', 'node1', 7],
      // A label that is missing is not empty.
      ['node-label:a.example/empty==7', 'node2', 1],
      ['node-label:pool=gold=10', 'node3', 1],
      ['node-label:pool=gold=10', '', 1],
      ['node-label:constructor=x=4', 'node1', 4],
      ['node-label:constructor=x=4', 'node2', 1],
      ['node-label:toString=x=4', 'node1', 1],
    ]
    for (const [text, nodeName, expected] of rows) {
      const weights = parseWeights(text)
      assert.ok(weights, text)
      const candidate = endpoint({ address: '10.244.0.1', nodeName })
      assert.equal(weightOf(weights, candidate, node({ nodeLabels })), expected, `${text} ${nodeName}`)
    }
  })

  it('is that of `other` while the labels are not known', () => {
    const weights = parseWeights('node-label:pool=gold=10,other=2')
    assert.ok(weights)
    assert.equal(weightOf(weights, endpoint({ address: '10.244.0.1', nodeName: 'node1' }), node()), 2)
    assert.equal(weights.reads, READS_NODE_LABELS)
  })
})

describe('a Service with weights', () => {
  const reader = new AnnotationReader('wrr')
  const weighted = (text: string): Service =>
    service({ annotations: annotationsText(new Map([['kube-ipvs.io/weights', text]])) })
  const three = slice({
    endpoints: [
      endpoint({ address: '10.244.0.3', zone: 'a', nodeName: 'node0' }),
      endpoint({ address: '10.244.0.1', zone: 'b', nodeName: 'node1' }),
      endpoint({ address: '10.244.0.2', zone: 'a', nodeName: 'node1' }),
    ],
  })

  it('has the weight of each candidate, and depends on the zone of the node only with same-zone', () => {
    for (const [text, reads] of [
      ['same-zone=4', READS_LOCAL_ADDRESSES | READS_ZONE],
      ['zone:a=4', READS_LOCAL_ADDRESSES],
    ] as const) {
      const found = contributionOf(weighted(text), [three], node(), { annotations: reader })
      const [frontend] = found.frontends.values()
      assert.deepEqual(frontend?.servicePort.weights, [1, 4, 4])
      assert.equal(found.reads, reads, text)
    }
  })

  it('changes its frontends when only a weight changes: of a zone, of the node, of the rules', () => {
    const changed: FrontendKey[] = []
    const desired = new DesiredFrontends(node(), { annotations: reader })
    const flush = (): FrontendKey[] => {
      desired.flushAll({ frontend: (key) => changed.push(key), problems: () => undefined })
      return changed.splice(0)
    }
    const put = (text: string, value = three): FrontendKey[] => {
      desired.apply({ kind: 'services', key: 'demo/web', value: weighted(text) })
      desired.apply({ kind: 'endpointslices', key: 'demo/web-1', value })
      return flush()
    }
    assert.equal(put('same-zone=4').length, 1)
    assert.equal(put('same-zone=4').length, 0)
    assert.equal(put('same-zone=5').length, 1)
    const moved = slice({ endpoints: three.endpoints.map((one) => ({ ...one, zone: 'b' })) })
    assert.equal(put('same-zone=5', moved).length, 1)
    desired.setContext(node({ zone: 'b' }))
    assert.equal(flush().length, 1)
    // Labels of nodes concern only Services whose rules name one.
    const gold = new Map([['node1', { pool: 'gold' }]])
    desired.setContext(node({ zone: 'b', nodeLabels: gold }))
    assert.equal(flush().length, 0)
    assert.equal(put('node-label:pool=gold=5', moved).length, 1)
    desired.setContext(node({ zone: 'b', nodeLabels: new Map(gold) }))
    assert.equal(flush().length, 0)
    desired.setContext(node({ zone: 'b', nodeLabels: new Map([['node1', { pool: 'tin' }]]) }))
    assert.equal(flush().length, 1)
    // The rules do not name the zone, so nothing changes for the kernel.
    assert.equal(put('zone:c=5', moved).length, 1)
    assert.equal(put('zone:c=5', three).length, 0)
  })
})

describe('DesiredFrontends', () => {
  it('counts Services by what they have chosen, without wrong values', () => {
    const desired = new DesiredFrontends(node(), { annotations: new AnnotationReader('wlc') })
    const put = (name: string, annotations: Readonly<Record<string, string>> | undefined): void => {
      const named = Object.entries(annotations ?? {}).map(([key, value]) => [`kube-ipvs.io/${key}`, value] as const)
      const value = annotations && service({ name, annotations: annotationsText(new Map(named)) })
      desired.apply({ kind: 'services', key: `demo/${name}`, value })
    }
    const counts = (): Readonly<Record<string, number>> => {
      desired.flushAll({ frontend: () => undefined, problems: () => undefined })
      return Object.fromEntries([...desired.choiceCounts()].filter(([, count]) => count > 0))
    }
    assert.equal(desired.choiceCounts().size, 8)
    put('one', { scheduler: 'mh', 'scheduler-flags': 'port', weights: 'other=2', 'slow-start': '9s' })
    put('two', { scheduler: 'mh', 'scheduler-flags': 'port', weights: 'other=2', 'slow-start': '9s' })
    put('three', { weights: 'other=0', 'max-connections': '5', 'drain-deadline': '1m', 'affinity-prefix-length': '24' })
    put('four', {})
    assert.deepEqual(counts(), {
      scheduler: 2,
      'scheduler-flags': 2,
      weights: 2,
      'slow-start': 2,
      'max-connections': 1,
      'drain-deadline': 1,
      'affinity-prefix-length': 1,
    })
    put('one', undefined)
    put('two', {})
    put('three', { 'max-connections': '6' })
    assert.deepEqual(counts(), { 'max-connections': 1 })
  })
})

describe('thousands of Services that change their weights at once', () => {
  it('each get their own, in portions, with a bounded memory of texts', () => {
    const budget = countedBudget(500)
    const desired = new DesiredFrontends(node(), { annotations: new AnnotationReader('wlc') }, budget)
    const count = 3000
    const weights = new Map<string, number | undefined>()
    const flush = (): number => {
      let turns = 0
      const frontend = (_: FrontendKey, frontend: Frontend | undefined): void => {
        const { service: owner, weights: [weight] = [] } = frontend?.servicePort ?? { service: service() }
        weights.set(owner.name, weight)
      }
      for (; desired.isDirty; turns++) {
        budget.begin()
        desired.flush({ frontend, problems: () => undefined })
        budget.begin()
        desired.resume({ frontend, problems: () => undefined })
      }
      return turns
    }
    const put = (weightOfService: (index: number) => string): void => {
      for (let index = 0; index < count; index++) {
        const name = `web${index}`
        const clusterIps = { IPv4: `10.97.${index >> 8}.${index & 255}` }
        const annotations = annotationsText(new Map([['kube-ipvs.io/weights', `zone:a=${weightOfService(index)}`]]))
        desired.apply({ kind: 'services', key: `demo/${name}`, value: service({ name, clusterIps, annotations }) })
      }
    }
    for (let index = 0; index < count; index++) {
      const endpoints = [endpoint({ address: `10.244.${index >> 8}.${index & 255}`, zone: 'a' })]
      const value = slice({ serviceName: `web${index}`, endpoints })
      desired.apply({ kind: 'endpointslices', key: `demo/web${index}-1`, value })
    }
    put((index) => String(index + 1))
    assert.ok(flush() >= 5)
    put((index) => String(index + 2))
    flush()
    for (let index = 0; index < count; index++) assert.equal(weights.get(`web${index}`), index + 2)
    // All wrong at once: the default, and nothing else changes.
    put(() => '0')
    flush()
    assert.deepEqual(new Set(weights.values()), new Set([undefined]))
    assert.equal(desired.choiceCounts().get('weights'), 0)
  })
})

describe('schedulerWeights', () => {
  it('leaves weights as they are, unless the table of sh cannot hold them', () => {
    const rows: readonly (readonly [string, readonly number[], readonly number[]])[] = [
      ['wlc', [65_535, 1], [65_535, 1]],
      ['sh', [200, 56], [200, 56]],
      ['sh', [65_535, 1], [255, 1]],
      ['sh', [100, 100, 100], [85, 85, 85]],
      ['sh', [512, 256, 256], [128, 64, 64]],
      ['sh', [], []],
    ]
    for (const [scheduler, weights, expected] of rows) assert.deepEqual(schedulerWeights(scheduler, weights), expected)
  })

  it('gives sh shares that fit, each at least 1 and in the same order, as long as it has a place for each', () => {
    const list = fc.array(fc.integer({ min: 1, max: 65_535 }), { minLength: 1, maxLength: 256 })
    fc.assert(
      fc.property(list, (weights) => {
        const found = schedulerWeights('sh', weights)
        assert.equal(found.length, weights.length)
        assert.ok(found.reduce((total, weight) => total + weight, 0) <= 256)
        for (const [index, weight] of found.entries()) {
          assert.ok(weight >= 1)
          for (const [other, otherWeight] of found.entries())
            if ((weights[index] ?? 0) > (weights[other] ?? 0)) assert.ok(weight >= otherWeight)
        }
      }),
      { numRuns: 50 },
    )
    assert.ok(
      schedulerWeights(
        'sh',
        Array.from({ length: 300 }, () => 9),
      ).every((weight) => weight === 1),
    )
  })
})
