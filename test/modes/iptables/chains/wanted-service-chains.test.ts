/** The names of the chains of Services, and which chains a change affects. */
import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { IPTABLES_LAYOUT, IPVS_LAYOUT } from '../../../../src/modes/leftovers/layouts.ts'
import { itemsOf, parseSave } from '../../../../src/iptables/save-text.ts'
import { chainHash, endpointChain } from '../../../../src/modes/iptables/chains/chain-names.ts'
import { type ChainChange, WantedServiceChains } from '../../../../src/modes/iptables/chains/wanted-service-chains.ts'
import type { Service, SliceEndpoint } from '../../../../src/service/objects.ts'
import { DesiredFrontends } from '../../../../src/sync/desired-frontends.ts'
import { contributionOf } from '../../../support/contribution.ts'
import { endpoint, service, servicePort, slice, slicePort } from '../../../support/objects.ts'

test('chains are named as kube-proxy names them', () => {
  // Test vectors of kube-proxy's own tests.
  assert.equal(chainHash('ns1/svc1:p80tcp'), 'XPGD46QRK7WJZT7O')
  assert.equal(endpointChain('ns1/svc1:p80tcp', '10.180.0.1:80'), 'KUBE-SEP-SXIVWICOYRO3J4NJ')
  assert.equal(chainHash('default/kubernetes:httpstcp'), 'NPX46M4PTMTKRN6Y')
  assert.equal(chainHash('kube-system/kube-dns:dnsudp'), 'TCOU7JCQXEZGVUNU')
  assert.equal(chainHash('ns2/svc2sctp'), 'ZLF3VXEBI7ALNZXN')
  assert.equal(endpointChain('ns2/svc2sctp', '[fd00:10:244::5]:9999'), 'KUBE-SEP-5B24SDABODQ2DKJV')
})

test('each mode finds the leftovers of the other one, except those that kubelet has too and the refusals of ipvs mode', () => {
  const saved = parseSave(`*nat
:OUTPUT ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-LOAD-BALANCER - [0:0]
:KUBE-SVC-NPX46M4PTMTKRN6Y - [0:0]
:KUBE-SVC-SHORT - [0:0]
COMMIT
*filter
:INPUT ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-IPVS-FILTER - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
-A INPUT -j KUBE-FIREWALL
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL
COMMIT
`)
  const everywhere = [
    'filter INPUT KUBE-PROXY-FIREWALL',
    'filter INPUT KUBE-PROXY-FIREWALL NEW',
    'filter KUBE-EXTERNAL-SERVICES',
    'nat KUBE-LOAD-BALANCER',
    'nat KUBE-SERVICES',
    'nat KUBE-SVC-NPX46M4PTMTKRN6Y',
  ]
  const refusal = 'filter KUBE-IPVS-FILTER'
  assert.deepEqual([...itemsOf(saved, IPVS_LAYOUT).keys()].sort(), [...everywhere, refusal].sort())
  const shared = ['filter INPUT KUBE-FIREWALL', 'filter KUBE-FIREWALL']
  assert.deepEqual([...itemsOf(saved, IPTABLES_LAYOUT).keys()].sort(), [...everywhere, ...shared].sort())
})

const CONTEXT = {
  nodeName: 'node0',
  zone: '',
  nodeIps: { IPv4: '10.0.2.15' },
  localAddresses: new Set<string>(),
  nodePortAddresses: { IPv4: [], IPv6: [] },
}

function serviceOf(name: string, change: Partial<Service> = {}): Service {
  return service({
    name,
    clusterIps: { IPv4: `10.96.0.${name.length}` },
    ports: [servicePort({ name: '', port: 80 })],
    ...change,
  })
}

/** Endpoints at these addresses on another node. */
function elsewhere(addresses: readonly string[], change: Partial<SliceEndpoint> = {}): readonly SliceEndpoint[] {
  return addresses.map((address) => endpoint({ address, nodeName: 'node1', ...change }))
}

/** The chains of a node that has only IPv4, made from objects. */
class World {
  readonly #desired: DesiredFrontends
  readonly wanted = new WantedServiceChains({
    family: 'IPv4',
    masqueradeAll: false,
    masqueradeBit: 14,
    randomFully: true,
    localhostNodePorts: true,
    dropsInvalid: true,
    countsInvalid: true,
    countsLoopback: true,
    hasRecent: true,
    hasStatistic: true,
    localTraffic: undefined,
    nodePortPlaces: 'all',
  })

  constructor(usesExternalIps = true) {
    this.#desired = new DesiredFrontends(CONTEXT, { nodePorts: 'every-address', usesExternalIps })
  }

  service(name: string, change?: Partial<Service> | 'gone'): void {
    const value = change === 'gone' ? undefined : serviceOf(name, change)
    this.#desired.apply({ kind: 'services', key: `demo/${name}`, value })
  }

  slice(name: string, addresses: readonly string[]): void {
    this.endpoints(name, elsewhere(addresses))
  }

  endpoints(name: string, endpoints: readonly SliceEndpoint[]): void {
    const value = slice({ name, serviceName: name, ports: [slicePort({ name: '', port: 8080 })], endpoints })
    this.#desired.apply({ kind: 'endpointslices', key: `demo/${name}`, value })
  }

  zone(zone: string): void {
    this.#desired.setContext({ ...CONTEXT, zone })
  }

  changes(): readonly ChainChange[] {
    const listener = {
      frontend: this.wanted.frontend.bind(this.wanted),
      problems: () => undefined,
    }
    this.#desired.flushAll(listener)
    return this.wanted.changes()
  }

  /** Names of the chains that changed, sorted; `-` before those that are removed. */
  changed(): string[] {
    return this.changes()
      .map(({ key, item }) => `${item === undefined ? '-' : ''}${key}`)
      .sort()
  }
}

describe('WantedServiceChains', () => {
  const hash = (name: string): string => chainHash(`demo/${name}tcp`)
  const sep = (name: string, address: string): string => `nat ${endpointChain(`demo/${name}tcp`, `${address}:8080`)}`

  it('returns the chains of changed Services, and a shared chain only when one of its rules changed', () => {
    const world = new World()
    for (const name of ['a', 'bb']) {
      world.service(name)
      world.slice(name, ['10.244.1.1', '10.244.1.2'])
    }
    world.changes()
    assert.deepEqual(world.changed(), [])
    world.slice('a', ['10.244.1.2', '10.244.1.3'])
    const replaced = [`-${sep('a', '10.244.1.1')}`, sep('a', '10.244.1.3'), `nat KUBE-SVC-${hash('a')}`]
    assert.deepEqual(world.changed(), replaced.sort())
    world.slice('a', [])
    const gone = [sep('a', '10.244.1.2'), sep('a', '10.244.1.3'), `nat KUBE-SVC-${hash('a')}`].map((key) => `-${key}`)
    // Instead it has a rule that rejects.
    assert.deepEqual(world.changed(), [...gone, 'filter KUBE-SERVICES', 'nat KUBE-SERVICES'].sort())
    world.service('a', 'gone')
    assert.deepEqual(world.changed(), ['filter KUBE-SERVICES'])
  })

  it('serves without affinity where the kernel has no match recent, and by one endpoint where it has no match statistic', () => {
    const world = new World()
    world.service('a', { affinityTimeoutSeconds: 60 })
    world.slice('a', ['10.244.1.1', '10.244.1.2'])
    const rules = (): string[] =>
      world
        .changes()
        .flatMap(({ key, item }) => (item?.kind === 'chain' && /KUBE-(SVC|SEP)/.test(key) ? item.rules : []))
    const complete = rules()
    const count = (all: readonly string[], text: string): number => all.filter((rule) => rule.includes(text)).length
    assert.deepEqual([count(complete, '-m recent'), count(complete, '-m statistic')], [4, 1])
    world.wanted.configure({ hasRecent: false })
    const forgetful = rules()
    assert.deepEqual([count(forgetful, '-m recent'), count(forgetful, '-m statistic')], [0, 1])
    assert.equal(count(forgetful, '-j DNAT --to-destination'), 2)
    world.wanted.configure({ hasStatistic: false })
    const single = rules()
    assert.deepEqual([count(single, '-m statistic'), count(single, '-j KUBE-SEP')], [0, 1])
    world.wanted.configure({ hasRecent: true, hasStatistic: true })
    assert.deepEqual(rules(), complete)
  })

  it('leaves out a port whose name contains a line break, reports it once, and renders the others', () => {
    const world = new World()
    const bad = servicePort({ name: 'x\n-I INPUT -j ACCEPT\n#', port: 80, nodePort: 30_080 })
    world.service('a', { ports: [bad] })
    world.service('bb')
    for (const name of ['a', 'bb']) world.slice(name, ['10.244.1.1'])
    const changes = world.changes()
    assert.ok(changes.some(({ key }) => key === `nat KUBE-SVC-${hash('bb')}`))
    const rules = changes.flatMap(({ item }) => (item?.kind === 'chain' ? item.rules : []))
    assert.deepEqual(
      rules.filter((rule) => rule.includes('INPUT') || rule.includes('30080')),
      [],
    )
    assert.deepEqual(
      [...world.wanted.takeRefused()].map(([port, { code }]) => [port, code]),
      [[`demo/a:${bad.name} tcp`, 'iptables-unprintable']],
    )
    assert.deepEqual(world.changed(), [])
    assert.equal(world.wanted.takeRefused().size, 0)
    world.service('a')
    world.slice('a', ['10.244.1.1'])
    assert.ok(world.changed().includes(`nat KUBE-SVC-${hash('a')}`))
    assert.equal(world.wanted.takeRefused().size, 0)
  })

  it('follows a change of policy when the addresses stay the same', () => {
    const world = new World()
    const ports = [servicePort({ port: 80, nodePort: 30_080 })]
    world.service('a', { ports })
    world.slice('a', ['10.244.1.1'])
    world.changes()
    world.service('a', { ports, externalTrafficPolicy: 'Local' })
    assert.deepEqual(world.changed(), ['filter KUBE-EXTERNAL-SERVICES', `nat KUBE-EXT-${hash('a')}`])
  })

  it('follows the zone of the node when endpoints have hints for zones', () => {
    const world = new World()
    const hinted = (address: string, zone: string) => elsewhere([address], { zoneHints: [zone] })
    world.service('a', { internalTrafficPolicy: 'Local', externalTrafficPolicy: 'Local', externalIps: ['203.0.113.7'] })
    world.endpoints('a', [...hinted('10.244.1.1', 'zone-a'), ...hinted('10.244.1.2', 'zone-b')])
    world.changes()
    world.zone('zone-b')
    assert.deepEqual(world.changed(), [`-${sep('a', '10.244.1.1')}`, `nat KUBE-SVC-${hash('a')}`])
  })

  describe('with one address as VIP and as external IP', () => {
    const VIP = '203.0.113.7'
    const both: Partial<Service> = {
      externalIps: [VIP],
      loadBalancerVips: [VIP],
      sourceRanges: ['10.0.2.0/24'],
      externalTrafficPolicy: 'Local',
    }
    const rulesOf = (changes: readonly ChainChange[], key: string): readonly string[] => {
      const item = changes.find((change) => change.key === key)?.item
      return (item?.kind === 'chain' ? item.rules : []).filter((rule) => rule.includes('demo/a'))
    }
    const at = (text: string): string => `-d ${VIP}/32 -p tcp -m comment --comment "demo/a ${text}" -m tcp --dport 80`

    it('has no rule of the external IP that would let every source pass its source ranges', () => {
      const world = new World()
      world.service('a', both)
      world.slice('a', ['10.244.1.1'])
      const changes = world.changes()
      assert.deepEqual(rulesOf(changes, 'nat KUBE-SERVICES').slice(1), [
        `${at('loadbalancer IP')} -j KUBE-FW-${hash('a')}`,
      ])
      assert.deepEqual(rulesOf(changes, 'filter KUBE-PROXY-FIREWALL'), [
        `${at(`traffic not accepted by KUBE-FW-${hash('a')}`)} -j DROP`,
      ])
      assert.deepEqual(rulesOf(changes, `nat KUBE-FW-${hash('a')}`), [
        `-s 10.0.2.0/24 -m comment --comment "demo/a loadbalancer IP" -j KUBE-EXT-${hash('a')}`,
        `-s ${VIP}/32 -m comment --comment "demo/a loadbalancer IP" -j KUBE-EXT-${hash('a')}`,
        '-m comment --comment "other traffic to demo/a will be dropped by KUBE-PROXY-FIREWALL"',
      ])
      const dropped = `${at('has no local endpoints')} -j DROP`
      assert.deepEqual(rulesOf(changes, 'filter KUBE-EXTERNAL-SERVICES'), [dropped, dropped])
    })

    it('has the rules of both roles without source ranges, the external IP first', () => {
      const world = new World()
      world.service('a', { ...both, sourceRanges: [] })
      world.slice('a', ['10.244.1.1'])
      assert.deepEqual(rulesOf(world.changes(), 'nat KUBE-SERVICES').slice(1), [
        `${at('external IP')} -j KUBE-EXT-${hash('a')}`,
        `${at('loadbalancer IP')} -j KUBE-EXT-${hash('a')}`,
      ])
    })

    it('rejects in both roles when there are no endpoints', () => {
      const world = new World()
      world.service('a', both)
      const refused = `${at('has no endpoints')} -j REJECT --reject-with icmp-port-unreachable`
      assert.deepEqual(rulesOf(world.changes(), 'filter KUBE-EXTERNAL-SERVICES'), [refused, refused])
    })

    it('loses only the rules of the role that it loses', () => {
      const world = new World()
      world.service('a', both)
      world.slice('a', ['10.244.1.1'])
      world.changes()
      world.service('a', { ...both, loadBalancerVips: [] })
      assert.deepEqual(rulesOf(world.changes(), 'nat KUBE-SERVICES').slice(1), [
        `${at('external IP')} -j KUBE-EXT-${hash('a')}`,
      ])
      world.service('a', both)
      world.changes()
      world.service('a', { ...both, externalIps: [] })
      assert.ok(!world.changed().includes('nat KUBE-SERVICES'), 'the rule of the other role stays')
    })
  })

  it('has no rule for external IPs that are turned off, but the chain that kube-proxy makes for them', () => {
    const world = new World(false)
    world.service('a', { externalIps: ['203.0.113.7'] })
    world.slice('a', ['10.244.1.1'])
    const changes = world.changes()
    assert.ok(!JSON.stringify(changes).includes('203.0.113.7'))
    const chains = changes.flatMap(({ key }) => (key.includes(hash('a')) ? [key] : []))
    assert.deepEqual(chains.sort(), [`nat KUBE-EXT-${hash('a')}`, `nat KUBE-SVC-${hash('a')}`])
  })

  it('looks at a bounded number of frontends for each one that is added', () => {
    const { wanted } = new World()
    let looks = 0
    const large = serviceOf('a', {
      externalIps: Array.from({ length: 2000 }, (_, n) => `198.18.${n >> 8}.${n & 255}`),
    })
    for (const frontend of contributionOf(large, [], CONTEXT).frontends.values())
      wanted.frontend(
        frontend.key,
        Object.defineProperty({ ...frontend }, 'servicePort', {
          get: () => {
            looks++
            return frontend.servicePort
          },
        }),
      )
    assert.ok(looks < 5000, `${looks} looks for ${2001} frontends`)
  })

  it('leaves out the comments of endpoints when there are many', () => {
    const world = new World()
    world.service('a')
    const many = Array.from({ length: 1001 }, (_, index) => `10.244.${index >> 8}.${index & 255}`)
    const rulesOf = (key: string): readonly string[] => {
      const item = world.changes().find((change) => change.key === key)?.item
      return item?.kind === 'chain' ? item.rules : []
    }
    world.slice('a', many.slice(1))
    assert.match(rulesOf(sep('a', '10.244.0.1')).join(), /--comment "demo.a"/)
    world.slice('a', many)
    assert.deepEqual(rulesOf(sep('a', '10.244.0.0')), [
      '-s 10.244.0.0/32 -j KUBE-MARK-MASQ',
      '-p tcp -m tcp -j DNAT --to-destination 10.244.0.0:8080',
    ])
  })

  it('has the same chains after any changes as after a start with the last state', () => {
    const policy = fc.constantFrom('Cluster' as const, 'Local' as const)
    const anyChange = fc.record({
      createdAtMs: fc.constantFrom(0, 1),
      ports: fc.constantFrom(0, 30_080, 30_081).map((nodePort) => [servicePort({ port: 80, nodePort })]),
      externalIps: fc.subarray(['203.0.113.7', '203.0.113.8', '203.0.113.9']),
      loadBalancerVips: fc.subarray(['203.0.113.8', '203.0.113.10']),
      sourceRanges: fc.subarray(['10.0.2.0/24', '192.0.2.0/24']),
      internalTrafficPolicy: policy,
      externalTrafficPolicy: policy,
      affinityTimeoutSeconds: fc.constantFrom(0, 10_800),
      healthCheckNodePort: fc.constantFrom(0, 32_000),
    })
    const name = fc.constantFrom('a', 'bb')
    const endpoints = fc
      .record({
        addresses: fc.subarray(['10.244.1.1', '10.244.1.2', '10.244.1.10']),
        change: fc.record({
          ready: fc.boolean(),
          serving: fc.boolean(),
          terminating: fc.boolean(),
          nodeName: fc.constantFrom('node0', 'node1'),
          zoneHints: fc.constantFrom(['zone-a'], ['zone-b'], []),
        }),
      })
      .map(({ addresses, change }) => elsewhere(addresses, change))
    type Step = (world: World) => void
    const step: fc.Arbitrary<{ readonly what: string; readonly run: Step }> = fc.oneof(
      fc.tuple(name, fc.option(anyChange, { freq: 5 })).map(([of, change]) => ({
        what: `service ${of}`,
        run: (world: World) => world.service(of, change ?? 'gone'),
      })),
      fc.tuple(name, fc.array(endpoints, { maxLength: 2 })).map(([of, lists]) => ({
        what: `slice ${of}`,
        run: (world: World) => world.endpoints(of, lists.flat()),
      })),
      fc.constantFrom('zone-a', 'zone-b').map((zone) => ({ what: 'zone', run: (world: World) => world.zone(zone) })),
    )
    const follow = (chains: Map<string, unknown>, changes: readonly ChainChange[]): void => {
      for (const { key, item } of changes) {
        if (item === undefined) chains.delete(key)
        else chains.set(key, item)
      }
    }
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 10 }), (steps) => {
        const [world, chains, last] = [new World(), new Map<string, unknown>(), new Map<string, Step>()]
        for (const { what, run } of steps) {
          run(world)
          last.set(what, run)
          follow(chains, world.changes())
        }
        const [fresh, expected] = [new World(), new Map<string, unknown>()]
        for (const run of last.values()) run(fresh)
        follow(expected, fresh.changes())
        assert.deepEqual(new Map([...chains].sort()), new Map([...expected].sort()))
      }),
      { numRuns: 1000 },
    )
  })
})
