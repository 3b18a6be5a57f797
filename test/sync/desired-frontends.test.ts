import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { AnnotationReader, annotationsText } from '../../src/service/annotations.ts'
import type { Frontend } from '../../src/service/frontends.ts'
import type { NodeContext } from '../../src/service/node-context.ts'
import type { EndpointSlice, ObjectChange, Service } from '../../src/service/objects.ts'
import { VirtualIpGuard } from '../../src/service/virtual-ip-guard.ts'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { Budget } from '../../src/values/budget.ts'
import type { Problem } from '../../src/values/errors.ts'
import { SERVICE_ANNOTATION } from '../../src/values/well-known.ts'
import { countedBudget, oneByOne } from '../support/budgets.ts'
import { endpoint, service, servicePort, slice, slicePort } from '../support/objects.ts'

const node: NodeContext = {
  nodeName: 'node0',
  zone: 'zone-a',
  nodeIps: { IPv4: '10.0.2.15' },
  localAddresses: new Set(['10.0.2.15']),
  nodePortAddresses: { IPv4: ['10.0.2.15'], IPv6: [] },
}
const named = (name: string, change: Partial<Service> = {}): Service =>
  service({ name, clusterIps: { IPv4: '10.96.0.1' }, ports: [servicePort({ name: '', port: 80 })], ...change })
const sliceOf = (serviceName: string, name: string, ...addresses: string[]): EndpointSlice =>
  slice({
    name,
    serviceName,
    ports: [slicePort({ name: '', port: 8080 })],
    endpoints: addresses.map((address) => endpoint({ address, nodeName: 'node0' })),
  })
const put = (value: Service): ObjectChange => ({ kind: 'services', key: `demo/${value.name}`, value })
const putSlice = (value: EndpointSlice): ObjectChange => ({ kind: 'endpointslices', key: `demo/${value.name}`, value })

class Recorder {
  readonly frontends = new Map<string, string>()
  readonly events: string[] = []
  readonly problemsOf = new Map<string, readonly Problem[]>()
  frontend(key: string, frontend: Frontend | undefined): void {
    this.events.push(key)
    if (frontend === undefined) this.frontends.delete(key)
    else
      this.frontends.set(
        key,
        `${frontend.servicePort.name} ${frontend.selection.endpoints.map((it) => it.address).join()}`,
      )
  }
  problems(owner: string, problems: readonly Problem[]): void {
    this.problemsOf.set(owner, problems)
  }
}

function world(...changes: ObjectChange[]) {
  return worldWith(new Budget(), ...changes)
}

function worldWith(budget: Budget, ...changes: ObjectChange[]) {
  const desired = new DesiredFrontends(node, {}, budget)
  const seen = new Recorder()
  const flush = (): string[] => {
    seen.events.length = 0
    desired.flushAll(seen)
    assert.equal(desired.isDirty, false)
    return seen.events
  }
  /** A stretch of `flush`, or of `resume`, which returns how many owners are left. */
  const stretch = (part: 'flush' | 'resume'): number => {
    budget.begin()
    return part === 'flush' ? desired.flush(seen) : desired.resume(seen)
  }
  for (const change of changes) desired.apply(change)
  flush()
  return { desired, seen, flush, stretch }
}

describe('DesiredFrontends', () => {
  it('reports only the keys that changed', () => {
    const { desired, seen, flush } = world(put(named('a')), put(named('b', { clusterIps: { IPv4: '10.96.0.2' } })))
    desired.apply(putSlice(sliceOf('a', 'a-1', '10.244.0.1')))
    assert.deepEqual(flush(), ['10.96.0.1:80/tcp'])
    assert.equal(seen.frontends.get('10.96.0.1:80/tcp'), 'demo/a 10.244.0.1')
    desired.apply(putSlice(sliceOf('a', 'a-1', '10.244.0.1')))
    assert.deepEqual(flush(), [])
  })

  it('moves a slice whose Service changes', () => {
    const { desired, seen, flush } = world(
      put(named('a')),
      put(named('b', { clusterIps: { IPv4: '10.96.0.2' } })),
      putSlice(sliceOf('a', 's', '10.244.0.1')),
    )
    desired.apply(putSlice(sliceOf('b', 's', '10.244.0.1')))
    flush()
    assert.deepEqual([...seen.frontends.values()].sort(), ['demo/a ', 'demo/b 10.244.0.1'])
  })

  it('gives a shared address and port to the older Service until that Service is deleted', () => {
    const older = put(named('z', { createdAtMs: 1 }))
    const younger = put(named('a', { createdAtMs: 2 }))
    const { desired, seen, flush } = world(younger, older)
    assert.equal(seen.frontends.get('10.96.0.1:80/tcp'), 'demo/z ')
    assert.deepEqual(desired.takeNewLosses(), [{ key: '10.96.0.1:80/tcp', winner: 'demo/z', loser: 'demo/a' }])
    assert.equal(desired.lossCount, 1)
    desired.apply({ kind: 'services', key: 'demo/z', value: undefined })
    flush()
    assert.equal(seen.frontends.get('10.96.0.1:80/tcp'), 'demo/a ')
  })

  it('computes a Service again when an external IP of it becomes the cluster IP of another one, at any port', () => {
    const guarded = new VirtualIpGuard({}, false).rule
    const desired = new DesiredFrontends({ ...node, virtualIps: guarded })
    const seen = new Recorder()
    const flush = (): string[] => {
      seen.events.length = 0
      desired.flushAll(seen)
      return seen.events
    }
    const ports = [servicePort({ port: 9999 })]
    const db = (address: string) => put(service({ name: 'db', clusterIps: { IPv4: address } }))
    const taker = service({
      name: 'taker',
      clusterIps: { IPv4: '10.96.0.2' },
      ports,
      externalIps: ['10.96.0.9'],
    })
    const refused = () => seen.problemsOf.get('demo/taker')?.map(({ message }) => message) ?? []
    desired.apply(db('10.96.0.9'))
    desired.apply(put(taker))
    flush()
    assert.match(refused()[0] ?? '', /^10\.96\.0\.9 is refused: it is the cluster IP of demo\/db,/)
    desired.apply(db('10.96.0.8'))
    assert.ok(flush().includes('10.96.0.9:9999/tcp'))
    assert.deepEqual(refused(), [])
    desired.apply(db('10.96.0.9'))
    assert.ok(flush().includes('10.96.0.9:9999/tcp'))
    assert.equal(refused().length, 1)
    desired.apply({ kind: 'services', key: 'demo/db', value: undefined })
    flush()
    assert.deepEqual(refused(), [])
    desired.apply(put({ ...taker, externalIps: [] }))
    flush()
    desired.apply(db('10.96.0.9'))
    assert.deepEqual(flush(), ['10.96.0.9:80/tcp'], 'nobody names it any more')
  })

  describe('ranks claims by role before age', () => {
    const KEY = '203.0.113.7:80/tcp'
    const at = '203.0.113.7'
    const claims: readonly (readonly [role: string, change: Partial<Service>])[] = [
      ['a cluster IP', { clusterIps: { IPv4: at } }],
      ['a load-balancer VIP', { loadBalancerVips: [at] }],
      ['an external IP', { externalIps: [at] }],
    ]
    for (const [better, one] of claims) {
      for (const [worse, other] of claims.slice(claims.findIndex(([role]) => role === better) + 1)) {
        it(`${better} of a younger Service before ${worse} of an older Service`, () => {
          const { seen } = world(
            put(named('old', { clusterIps: { IPv4: '10.96.0.2' }, createdAtMs: 1, ...other })),
            put(named('young', { clusterIps: { IPv4: '10.96.0.3' }, createdAtMs: 2, ...one })),
          )
          assert.equal(seen.frontends.get(KEY), 'demo/young ')
        })
      }
    }

    it('a node port of a younger Service before an external IP of an older Service', () => {
      const ports = [servicePort({ port: 30080 })]
      const { seen } = world(
        put(named('old', { clusterIps: { IPv4: '10.96.0.2' }, createdAtMs: 1, ports, externalIps: ['10.0.2.15'] })),
        put(named('young', { createdAtMs: 2, ports: [servicePort({ port: 80, nodePort: 30080 })] })),
      )
      assert.equal(seen.frontends.get('10.0.2.15:30080/tcp'), 'demo/young ')
      assert.equal(seen.frontends.get('10.96.0.2:30080/tcp'), 'demo/old ', 'what it loses is one address alone')
    })

    it('an address in two roles by the better role', () => {
      const { seen } = world(
        put(named('old', { clusterIps: { IPv4: '10.96.0.2' }, createdAtMs: 1, externalIps: [at] })),
        put(
          named('young', {
            clusterIps: { IPv4: '10.96.0.3' },
            createdAtMs: 2,
            externalIps: [at],
            loadBalancerVips: [at],
          }),
        ),
      )
      assert.equal(seen.frontends.get(KEY), 'demo/young ')
    })

    it('again when a claim gets a better role', () => {
      const young = named('young', { clusterIps: { IPv4: '10.96.0.3' }, createdAtMs: 2, externalIps: [at] })
      const { desired, seen, flush } = world(
        put(named('old', { clusterIps: { IPv4: '10.96.0.2' }, createdAtMs: 1, externalIps: [at] })),
        put(young),
      )
      assert.equal(seen.frontends.get(KEY), 'demo/old ')
      desired.apply(put({ ...young, loadBalancerVips: [at] }))
      flush()
      assert.equal(seen.frontends.get(KEY), 'demo/young ')
      desired.apply(put(young))
      flush()
      assert.equal(seen.frontends.get(KEY), 'demo/old ')
    })
  })

  it('marks only the owners that read a changed field of the context as dirty', () => {
    const nodePort = named('np', { ports: [servicePort({ port: 80, nodePort: 30080 })] })
    const { desired, seen, flush } = world(put(nodePort), put(named('b', { clusterIps: { IPv4: '10.96.0.2' } })))
    desired.setContext({ ...node, zone: 'zone-b' })
    assert.equal(desired.isDirty, false)
    desired.setContext({ ...node, zone: 'zone-b', nodePortAddresses: { IPv4: ['10.0.2.15', '10.0.3.1'], IPv6: [] } })
    assert.deepEqual(flush(), ['10.0.3.1:30080/tcp'])
    assert.equal(seen.frontends.size, 4)
  })

  for (const [stretches, budget] of [
    ['without stretches', new Budget()],
    ['in stretches that are shorter than the work on a Service', oneByOne()],
  ] as const)
    it(`computes the Services of the API server and of DNS first, ${stretches}`, () => {
      const desired = new DesiredFrontends(node, {}, budget)
      const seen = new Recorder()
      const dns = named('kube-dns', {
        namespace: 'kube-system',
        clusterIps: { IPv4: '10.96.0.10' },
        ports: [
          servicePort({ name: 'dns', protocol: 'udp', port: 53 }),
          servicePort({ name: 'dns-tcp', protocol: 'tcp', port: 53 }),
        ],
      })
      const api = named('kubernetes', { namespace: 'default', clusterIps: { IPv4: '10.96.0.9' } })
      desired.apply(put(named('a')))
      desired.apply({ kind: 'services', key: 'kube-system/kube-dns', value: dns })
      desired.apply({ kind: 'services', key: 'default/kubernetes', value: api })
      desired.flushAll(seen)
      assert.deepEqual(seen.events, ['10.96.0.10:53/udp', '10.96.0.10:53/tcp', '10.96.0.9:80/tcp', '10.96.0.1:80/tcp'])
    })

  it('computes an owner again whose frontend the listener has refused to take', () => {
    const desired = new DesiredFrontends(node, {}, new Budget())
    const seen = new Recorder()
    const web = named('web', { externalIps: ['198.18.0.1', '198.18.0.2'] })
    const refusing = (): never => {
      throw new Error('refused')
    }
    desired.apply(put(web))
    assert.throws(() => desired.flush({ frontend: refusing, problems: () => undefined }), /refused/)
    assert.equal(desired.isDirty, true)
    while (desired.isDirty) desired.resume(seen)
    assert.equal([...desired.frontends()].length, 3)
    desired.apply({ kind: 'services', key: 'demo/web', value: undefined })
    desired.flushAll(seen)
    assert.deepEqual([...desired.frontends()], [])
  })

  describe('with a Service of very many frontends', () => {
    const large = (externalIps: number, ports = 2): Service =>
      named('large', {
        ports: Array.from({ length: ports }, (_, index) => servicePort({ name: `p${index}`, port: 1000 + index })),
        externalIps: Array.from({ length: externalIps }, (_, index) => `198.18.${index >> 8}.${index & 255}`),
      })

    /** Items that a stretch of these tests has. A frontend without endpoints is one. */
    const ITEMS = 100
    const inStretches = () => worldWith(countedBudget(ITEMS))

    it('does a stretch of it in flush, and the rest in resume', () => {
      const { desired, seen, stretch } = inStretches()
      desired.apply(put(large(1000)))
      assert.equal(stretch('flush'), 0)
      assert.equal(seen.events.length, ITEMS)
      const sizes: number[] = []
      for (let left = 1; left > 0; ) {
        seen.events.length = 0
        left = stretch('resume')
        sizes.push(seen.events.length)
      }
      assert.ok(Math.max(...sizes) <= ITEMS, `${sizes}`)
      assert.equal(seen.frontends.size, 2002)
      assert.equal(desired.isDirty, false)
    })

    it('withdraws claims in stretches too', () => {
      const { desired, seen, flush, stretch } = inStretches()
      desired.apply(put(large(1000)))
      flush()
      for (const change of [put(large(0)), { kind: 'services', key: 'demo/large', value: undefined }] as const) {
        desired.apply(change)
        for (const part of ['flush', 'resume', 'resume'] as const) {
          seen.events.length = 0
          stretch(part)
          assert.ok(seen.events.length <= ITEMS)
        }
        while (stretch('resume') > 0);
        assert.equal(seen.frontends.size, change.value === undefined ? 0 : 2)
      }
    })

    it('counts what the kernel has to write: real servers that a frontend gets or loses, not those that stay', () => {
      const { desired, seen, stretch } = inStretches()
      const addresses = Array.from({ length: ITEMS }, (_, index) => `10.244.0.${index + 1}`)
      const frontends = 20
      desired.apply(put(large(frontends / 2 - 1)))
      const sizeOf = (...present: readonly string[]): number => {
        desired.apply(putSlice({ ...sliceOf('large', 's', ...present), ports: slicePorts }))
        for (let most = 0; ; ) {
          seen.events.length = 0
          stretch('flush')
          most = Math.max(most, seen.events.length)
          seen.events.length = 0
          stretch('resume')
          most = Math.max(most, seen.events.length)
          if (!desired.isDirty) return most
        }
      }
      const slicePorts = [slicePort({ name: 'p0', port: 80 }), slicePort({ name: 'p1', port: 81 })]
      assert.equal(sizeOf(...addresses), 1)
      assert.equal(sizeOf(...addresses.slice(1)), frontends)
      assert.equal(sizeOf(), 1)
    })

    it('counts of real servers with weights those that come, go or get another weight', () => {
      const budget = countedBudget(ITEMS)
      const desired = new DesiredFrontends(node, { annotations: new AnnotationReader('wrr') }, budget)
      const seen = new Recorder()
      const annotations = annotationsText(new Map([[SERVICE_ANNOTATION.weights, 'zone:a=3,other=1']]))
      const addresses = Array.from({ length: ITEMS }, (_, index) => `10.244.0.${index + 1}`)
      const slicePorts = [slicePort({ name: 'p0', port: 80 }), slicePort({ name: 'p1', port: 81 })]
      const slice = { ...sliceOf('large', 's', ...addresses), ports: slicePorts }
      const turnsFor = (change: ObjectChange): number => {
        desired.apply(change)
        for (let turns = 1; ; turns++) {
          budget.begin()
          if (turns % 2 === 1) desired.flush(seen)
          else desired.resume(seen)
          if (!desired.isDirty) return turns
        }
      }
      desired.apply(put({ ...large(9), annotations }))
      desired.apply(putSlice(slice))
      desired.flushAll(seen)
      assert.equal(turnsFor(put({ ...large(9), annotations })), 1)
      assert.equal(turnsFor(put({ ...large(9), annotations, affinityTimeoutSeconds: 60 })), 1)
      const [first, ...rest] = slice.endpoints
      assert.equal(turnsFor(putSlice({ ...slice, endpoints: rest })), 1)
      assert.ok(first !== undefined)
      assert.equal(turnsFor(putSlice(slice)), 1)
      assert.equal(turnsFor(putSlice({ ...slice, endpoints: [{ ...first, zone: 'a' }, ...rest] })), 1)
      const all = slice.endpoints.map((one) => ({ ...one, zone: 'a' }))
      assert.ok(turnsFor(putSlice({ ...slice, endpoints: all })) > 10)
    })

    it('ends with the step that its last frontend takes, and not behind those whose work is long', () => {
      const addresses = Array.from({ length: 2 * ITEMS }, (_, index) => `10.244.0.${index + 1}`)
      const { desired, seen, stretch } = inStretches()
      desired.apply(put(named('web')))
      desired.apply(putSlice(sliceOf('web', 's', ...addresses)))
      stretch('flush')
      assert.deepEqual([seen.events.length, desired.isDirty], [1, false])
    })

    it('computes other Services in between, also when it changes all the time', () => {
      const { desired, seen, stretch } = inStretches()
      desired.apply(put(large(1000)))
      stretch('flush')
      desired.apply(put(named('a')))
      desired.apply(put({ ...large(900), affinityTimeoutSeconds: 900 }))
      seen.events.length = 0
      assert.equal(stretch('flush'), 0, 'what is under way is not begun again')
      assert.deepEqual(seen.events, ['10.96.0.1:80/tcp'])
      while (stretch('resume') > 0 || seen.frontends.size !== 1803);
      assert.equal(desired.isDirty, false)
      // Its last work was long.
      for (const count of [910, 920, 930]) {
        desired.apply(put({ ...large(count), affinityTimeoutSeconds: count }))
        desired.apply(put(named('a', { externalIps: [`198.19.0.${count - 900}`] })))
        seen.events.length = 0
        stretch('flush')
        assert.deepEqual(seen.events.length, count === 910 ? 1 : 2)
        stretch('resume')
      }
    })

    it('counts among the others again once its work was short', () => {
      const { desired, seen, flush, stretch } = inStretches()
      desired.apply(put(large(1000)))
      flush()
      desired.apply(put(large(0)))
      flush()
      desired.apply(put(large(1)))
      flush()
      desired.apply(put(large(2)))
      seen.events.length = 0
      stretch('flush')
      assert.equal(seen.events.length, 2)
    })

    it('counts among the others when its work was a stretch or two', () => {
      const { desired, seen, flush, stretch } = inStretches()
      desired.apply(put(large(ITEMS / 2)))
      stretch('flush')
      while (stretch('resume') > 0);
      flush()
      desired.apply(put(large(ITEMS / 2 + 1)))
      seen.events.length = 0
      stretch('flush')
      assert.notEqual(seen.events.length, 0)
    })

    it('serves several such Services in turns', () => {
      const { desired, seen, stretch } = inStretches()
      const other = { ...large(0, 600), name: 'other', clusterIps: { IPv4: '10.96.0.2' } }
      desired.apply(put(large(1000)))
      desired.apply(put(other))
      stretch('flush')
      stretch('flush')
      seen.events.length = 0
      stretch('resume')
      stretch('resume')
      const owners = new Set(seen.events.map((key) => seen.frontends.get(key)?.replace(/:.*/, '')))
      assert.deepEqual([...owners].sort(), ['demo/large', 'demo/other'])
    })

    it('applies a change of the node in between', () => {
      const { desired, stretch } = inStretches()
      desired.apply(put(large(1000)))
      stretch('flush')
      desired.setContext({ ...node, localAddresses: new Set(['198.18.0.0']) })
      assert.equal(stretch('flush'), 0)
      while (stretch('resume') > 0) assert.equal(desired.isDirty, true)
    })

    it('has the same result in any stretches, whatever changes in between', () => {
      const change = fc.oneof(
        fc
          .record({ externalIps: fc.integer({ min: 0, max: 400 }), ports: fc.constantFrom(1, 2) })
          .map(({ externalIps, ports }) => put(large(externalIps, ports))),
        fc.constant<ObjectChange>({ kind: 'services', key: 'demo/large', value: undefined }),
        fc.constantFrom('10.244.0.1', '10.244.0.2').map((address) => putSlice(sliceOf('large', 's', address))),
        fc.boolean().map((older) => put(named('a', { createdAtMs: older ? -1 : 1, externalIps: ['198.18.0.7'] }))),
      )
      const run = fc.record({ changes: fc.array(change, { maxLength: 8 }), items: fc.integer({ min: 1, max: 300 }) })
      fc.assert(
        fc.property(run, ({ changes, items }) => {
          const { desired, seen, stretch } = worldWith(countedBudget(items))
          const latest = new Map<string, ObjectChange>()
          for (const one of changes) {
            desired.apply(one)
            latest.set(`${one.kind} ${one.key}`, one)
            stretch('flush')
            stretch('resume')
          }
          while (desired.isDirty) {
            stretch('flush')
            stretch('resume')
          }
          const expected = world(...latest.values()).seen.frontends
          assert.deepEqual(new Map([...seen.frontends].sort()), new Map([...expected].sort()))
        }),
        { numRuns: 50 },
      )
    })
  })

  it('has the same result whatever the order of changes', () => {
    const services = fc.uniqueArray(
      fc.record({
        name: fc.constantFrom('a', 'b', 'c', 'd'),
        ip: fc.constantFrom('10.96.0.1', '10.96.0.2'),
        createdAtMs: fc.constantFrom(0, 1, 2),
      }),
      { selector: (it) => it.name },
    )
    const slices = fc.uniqueArray(
      fc.record({
        name: fc.constantFrom('s', 't', 'u'),
        serviceName: fc.constantFrom('a', 'b', 'x'),
        address: fc.constantFrom('10.244.0.1', '10.244.0.2'),
      }),
      {
        selector: (it) => it.name,
      },
    )
    fc.assert(
      fc.property(services, slices, fc.infiniteStream(fc.nat(1000)), (someServices, someSlices, random) => {
        const target: ObjectChange[] = [
          ...someServices.map((it) =>
            put(named(it.name, { clusterIps: { IPv4: it.ip }, createdAtMs: it.createdAtMs })),
          ),
          ...someSlices.map((it) => putSlice(sliceOf(it.serviceName, it.name, it.address))),
        ]
        const expected = world(...target).seen.frontends
        const noise: ObjectChange[] = [
          put(named('a', { clusterIps: { IPv4: '10.96.0.2' } })),
          putSlice(sliceOf('b', 's', '10.244.0.9')),
          { kind: 'services', key: 'demo/b', value: undefined },
          { kind: 'endpointslices', key: 'demo/t', value: undefined },
        ]
        const shuffle = (changes: ObjectChange[]) =>
          changes
            .map((change) => ({ change, at: random.next().value }))
            .sort((a, b) => a.at - b.at)
            .map((it) => it.change)
        const { desired, seen, flush } = world(...shuffle([...noise, ...target]))
        for (const change of shuffle(target)) desired.apply(change)
        for (const name of ['a', 'b', 'c', 'd'])
          if (!someServices.some((it) => it.name === name))
            desired.apply({ kind: 'services', key: `demo/${name}`, value: undefined })
        for (const name of ['s', 't', 'u'])
          if (!someSlices.some((it) => it.name === name))
            desired.apply({ kind: 'endpointslices', key: `demo/${name}`, value: undefined })
        flush()
        assert.deepEqual(new Map([...seen.frontends].sort()), new Map([...expected].sort()))
      }),
    )
  })
})
