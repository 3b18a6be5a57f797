import assert from 'node:assert/strict'
import { test } from 'node:test'
import { explainService, type Explanation } from '../../../src/cli/explain/explanation.ts'
import { explanationText } from '../../../src/cli/explain/text.ts'
import { packetsTo } from '../../../src/cli/explain/paths.ts'
import { parseTarget, type Target } from '../../../src/cli/explain/target.ts'
import type { Outcome, PacketPath, PathStep } from '../../../src/explain/types.ts'
import type { DaemonView, EndpointView, FrontendView, ServiceView } from '../../../src/inspect/view.ts'
import type { Live } from '../../../src/modes/look/live-tables.ts'
import { ADDRESSES, hostAddress } from '../../../src/ipvs/address-diff.ts'
import { liveTable } from '../../../src/modes/look/service-tables.ts'
import { finishLine } from '../../../src/start/output.ts'
import { styleFor } from '../../../src/start/style.ts'

const HOSTILE = 'a\u001b[31mb\nc\u202e'
const endpoint = (key: string, more: Partial<EndpointView> = {}): EndpointView => ({
  key,
  node: 'node0',
  isLocal: true,
  ready: true,
  serving: true,
  terminating: false,
  zoneHints: [],
  nodeHints: [],
  internal: 'used',
  external: 'used',
  ...more,
})
const frontend = (key: string, more: Partial<FrontendView> = {}): FrontendView => ({
  key,
  roles: ['ClusterIP'],
  isBound: true,
  verdicts: 'internal',
  owner: 'demo/web',
  others: [],
  sourceRanges: null,
  ...more,
})
const VIEW: ServiceView = {
  namespace: 'demo',
  name: 'web',
  omitted: 0,
  omittedRows: 0,
  wanted: [{ table: 'addresses', key: '10.96.0.1', neededBy: '10.96.0.1:80/tcp', item: hostAddress('10.96.0.1') }],
  annotations: [
    ['kube-ipvs.io/scheduler', 'lc'],
    ['kube-router.io/service.scheduler', HOSTILE],
    ['kube-ipvs.io/max-connections', HOSTILE],
  ],
  problems: [
    {
      code: 'invalid-annotation',
      about: 'object',
      subject: 'service demo/web',
      field: 'metadata.annotations[kube-ipvs.io/max-connections]',
      message: 'is not allowed',
    },
  ],
  ports: [
    {
      name: 'demo/web:http',
      family: 'IPv4',
      protocol: 'tcp',
      port: 80,
      internalPolicy: 'Cluster',
      externalPolicy: 'Local',
      affinityTimeoutSeconds: 0,
      healthCheckNodePort: 0,
      endpoints: [
        endpoint('10.244.0.1:8080'),
        endpoint('10.244.1.2:8080', { node: HOSTILE, isLocal: false, external: 'not-local' }),
      ],
      frontends: [
        frontend('10.96.0.1:80/tcp'),
        frontend('203.0.113.1:80/tcp', {
          roles: ['LoadBalancerVip'],
          verdicts: 'external',
          owner: 'demo/other',
          others: ['demo/web'],
        }),
      ],
    },
  ],
}
const DAEMON = {
  mode: 'ipvs',
  node: { name: 'node0', zone: 'a', ips: {}, nodePortAddresses: { IPv4: [], IPv6: [] }, podCidrs: [] },
  settings: { serviceAnnotations: true } as DaemonView['settings'], // only this one is read
} as const
/** Nothing is there. */
const LIVE: Live = {
  tables: {
    'virtual-servers': undefined,
    addresses: liveTable(ADDRESSES, new Map()),
    routes: undefined,
    'set-entries': undefined,
    'chains-IPv4': undefined,
    'chains-IPv6': undefined,
    nftables: undefined,
  },
  uses: new Map(),
  hasIpvs: true,
  rules: { saved: {}, unread: undefined },
  virtualIps: { device: undefined, routes: new Map(), privateTables: [] },
}

function targetOf(text: string): Target {
  const read = parseTarget(text)
  assert.ok('value' in read)
  return read.value
}

function explanation(text: string, more: Partial<Explanation> = {}): Explanation {
  const service = explainService(VIEW, targetOf(text), DAEMON, LIVE)
  return {
    target: text,
    from: null,
    knownFrom: 'daemon',
    source: 'the daemon kube-ipvs 0.1.0 (pid 5)',
    mode: 'ipvs',
    node: DAEMON.node,
    unknown: [],
    isFound: service !== undefined,
    nearest: [],
    services: service === undefined ? [] : [service],
    kernel: [],
    paths: [],
    ...more,
  }
}

const lines = (value: Explanation, columns?: number): string[] =>
  explanationText(value, { style: (_, text) => text, columns })

test('the text names verdicts, owners, annotations and what is missing', () => {
  const text = lines(explanation('demo/web')).join('\n')
  assert.match(text, /^demo\/web on node node0\nipvs mode, zone a, known from the daemon kube-ipvs 0\.1\.0 \(pid 5\)$/m)
  assert.match(text, /^ {2}10\.244\.0\.1:8080 on this node\n {4}used: it is ready \[condition ready\]$/m)
  assert.match(text, /used for the cluster IP: it is ready/)
  assert.match(text, /not used for other addresses: it runs on node "a\\x1b\[31mb\\nc\\u202e"/)
  assert.match(text, /owner +demo\/other has won this address and port/)
  assert.match(
    text,
    /address +missing: 10\.96\.0\.1 on kube-ipvs0\n.*\n(.*\n)? +ip address add 10\.96\.0\.1\/32 dev kube-ipvs0/,
  )
  assert.match(text, /annotation +kube-ipvs\.io\/scheduler: "lc"$/m)
  assert.match(
    text.replaceAll(/\s+/g, ' '),
    /service\.scheduler: "[^ ]*", not in force: kube-ipvs\.io\/scheduler precedes it/,
  )
  // A wrong annotation is not a second line among the problems.
  assert.doesNotMatch(text, /^ {2}problem/m)
})

test('node ports at loopback addresses say to whom they lead, and why nobody listens', () => {
  const [service] = explanation('demo/web').services
  assert.ok(service !== undefined)
  const text = (relays: typeof service.relays, target = 'demo/web', mode: 'ipvs' | 'iptables' = 'ipvs'): string =>
    lines(explanation('demo/web', { target, mode, services: [{ ...service, relays }] }))
      .join(' ')
      .replaceAll(/\s+/g, ' ')
  const relay = { socket: '127.0.0.1:30080', because: '', endpoints: ['10.244.0.1:8080'], omitted: 0 } as const
  assert.match(
    text([{ ...relay, state: 'open', omitted: 3 }]),
    / localhost 127\.0\.0\.1:30080: the daemon listens and relays to 10\.244\.0\.1:8080 and 3 more /,
  )
  assert.match(
    text([{ ...relay, state: 'failing', because: `cannot listen: ${HOSTILE}` }]),
    /localhost 127\.0\.0\.1:30080: nobody listens: cannot listen: /,
  )
  for (const [state, why] of [
    ['no-endpoint', /nobody listens, because no endpoint/],
    ['no-address', /nobody listens, because this node does not have the address/],
    ['left-out', /nobody listens, because the daemon has as many/],
    ['waiting', /is about to listen/],
  ] as const)
    assert.match(text([{ ...relay, state }]), why)
  // Somebody who asks for such an address needs to read that they are off.
  assert.doesNotMatch(text(null), /localhost/)
  assert.match(text(null, '127.0.0.1:30080'), /nobody relays[^]*kubeIPVS\.localhostNodePorts is false/)
  assert.match(text(null, '[::1]:30080/tcp'), /kubeIPVS\.localhostNodePorts is false/)
  assert.doesNotMatch(text(null, '127.0.0.1:30080', 'iptables'), /localhostNodePorts/)
})

test('a port without endpoints says which objects have none, and which are not read', () => {
  const [service] = explanation('demo/web').services
  const [port] = service?.ports ?? []
  assert.ok(service !== undefined && port !== undefined)
  const text = lines(explanation('demo/web', { services: [{ ...service, ports: [{ ...port, endpoints: [] }] }] }))
  assert.match(
    text.join(' ').replaceAll(/\s+/g, ' '),
    /endpoints none: no EndpointSlice of the Service has an endpoint of this port; objects of kind Endpoints are not read/,
  )
})

test('a target selects ports and addresses', () => {
  const keys = (text: string) =>
    explanation(text).services.flatMap(({ ports }) => ports.flatMap(({ frontends }) => frontends.map(({ key }) => key)))
  assert.deepEqual(keys('demo/web:http'), ['10.96.0.1:80/tcp', '203.0.113.1:80/tcp'])
  assert.deepEqual(keys('demo/web:80'), keys('demo/web:http'))
  assert.deepEqual(keys('10.96.0.1:80'), ['10.96.0.1:80/tcp'])
  assert.deepEqual(keys('demo/web:https'), [])
  assert.deepEqual(keys('10.96.0.1:80/udp'), [])
})

test('what is no frontend is said, with what is near', () => {
  const missing = explanation('demo/wbe:https', { isFound: false, services: [], nearest: ['demo/web'] })
  assert.deepEqual(lines(missing), [
    '"demo/wbe:https" is no frontend of a Service on this node. Did you mean',
    'demo/web?',
  ])
})

const step = (effect: PathStep['effect'], more: Partial<PathStep> = {}): PathStep => ({
  hook: 'PREROUTING',
  table: 'nat',
  chain: 'KUBE-SERVICES',
  rule: '',
  sets: [],
  effect,
  ...more,
})
const path = (more: Partial<PacketPath>): PacketPath => ({
  source: '192.0.2.7',
  arrivesAt: 'eth0',
  steps: [],
  outcomes: [],
  choice: undefined,
  affinitySeconds: 0,
  limits: [],
  ...more,
})
const withPath = (one: PacketPath): Explanation =>
  explanation('10.96.0.1:80', {
    from: '192.0.2.7',
    paths: [{ frontend: '10.96.0.1:80/tcp', source: '192.0.2.7', destination: '10.96.0.1', path: one, because: '' }],
  })
const reached = (address: string, share: number | null) =>
  ({
    share,
    conditions: [],
    steps: [
      step(
        { kind: 'balance', virtualServer: '10.96.0.1:80/tcp', scheduler: 'rr', realServer: `${address}:8080`, share },
        { table: 'ipvs', chain: '', hook: 'INPUT' },
      ),
    ],
    end: {
      kind: 'endpoint',
      by: 'ipvs',
      address,
      port: 8080,
      source: { kind: 'node', address: '10.0.2.15' },
      isLocal: false,
      answer: { kind: 'returns' },
    },
  }) as const

test('a path is numbered, and ends with what happens to the packet', () => {
  const found = { name: 'KUBE-LOAD-BALANCER-FW', entry: '10.96.0.1,tcp:80' }
  const text = lines(
    withPath(
      path({
        steps: [
          step({ kind: 'mark', mark: 0x4000 }, { rule: '-A KUBE-SERVICES -j KUBE-MARK-MASQ' }),
          step({ kind: 'route', decision: { kind: 'local' } }, { table: 'routing', chain: '' }),
        ],
        outcomes: [
          {
            end: { kind: 'dropped' },
            share: 1,
            conditions: [],
            steps: [step({ kind: 'drop' }, { table: 'filter', chain: 'X', hook: 'INPUT', sets: [found] })],
          },
        ],
        limits: ['chains of nftables'],
      }),
    ),
    100,
  )
  const at = text.findIndex((line) => line.startsWith('From '))
  assert.deepEqual(text.slice(at), [
    'From 192.0.2.7 to 10.96.0.1:80/tcp',
    '  it arrives at eth0, with the source 192.0.2.7',
    '  1. PREROUTING, nat KUBE-SERVICES: the packet gets the mark 0x4000',
    '     -A KUBE-SERVICES -j KUBE-MARK-MASQ',
    '  2. routing: the destination is this node',
    '  3. INPUT, filter X: KUBE-LOAD-BALANCER-FW has 10.96.0.1,tcp:80: the packet is dropped',
    '  outcome           it is dropped: the client waits until it gives up',
    '  not considered    chains of nftables',
  ])
})

test('several endpoints are a table with their shares', () => {
  const text = lines(
    withPath(
      path({
        choice: 'turns',
        affinitySeconds: 60,
        outcomes: [reached('10.244.0.1', 1 / 3), reached('10.244.0.2', 2 / 3)],
      }),
    ),
  ).join('\n')
  assert.match(text, /^ {2}10\.244\.0\.1:8080 +33\.3 % {2}10\.0\.2\.15 \(masqueraded\) {2}returns$/m)
  assert.match(text, /^ {2}10\.244\.0\.2:8080 +66\.7 % /m)
  assert.match(
    text,
    /^ {2}For example to 10\.244\.0\.1:8080:\n {2}1\. INPUT, IPVS: virtual server 10\.96\.0\.1:80\/tcp \(rr\)/m,
  )
  assert.match(text, /choice +the endpoint is chosen in turns$/m)
  assert.match(text, /a client that was here in the last 60 s keeps its endpoint/)
})

test('an outcome that depends on a rule that cannot be judged says so', () => {
  const because = 'the match bpf is not understood'
  const condition = { hook: 'INPUT', table: 'filter', rule: '-A INPUT -m bpf', because } as const
  const text = lines(
    withPath(
      path({
        outcomes: [
          {
            end: { kind: 'dropped' },
            share: 1,
            conditions: [{ ...condition, matches: true }],
            steps: [step({ kind: 'unjudged', matches: true, because })],
          },
          { ...reached('10.244.0.1', 1), conditions: [{ ...condition, matches: false }] },
        ],
      }),
    ),
  ).join('\n')
  assert.match(text, /^ {2}Outcome 1, 100 %, if the packet matches -A INPUT -m bpf$/m)
  assert.match(text, /^ {2}Outcome 2, 100 %, if the packet matches not -A INPUT -m bpf$/m)
  assert.match(
    text.replaceAll(/\s+/g, ' '),
    /it cannot be known whether the rule matches \(the match bpf is not understood\)/,
  )
})

test('lines fit into terminals of 20 columns and more, and nothing controls the terminal', () => {
  const steps = [
    step({ kind: 'drop' }, { rule: `-A X --comment "${HOSTILE}"`, chain: HOSTILE, table: HOSTILE }),
    step({ kind: 'jump', chain: HOSTILE }, { sets: [{ name: HOSTILE, entry: HOSTILE }] }),
    step({ kind: 'route', decision: { kind: 'out', interface: HOSTILE, gateway: HOSTILE } }),
    step({ kind: 'unjudged', matches: true, because: HOSTILE }),
  ]
  const forwarded = (name: string): Outcome => ({
    share: 1,
    conditions: [{ hook: 'INPUT', table: 'filter', rule: name, matches: false, because: name }],
    steps,
    end: { kind: 'forwarded', interface: name, gateway: name, source: { kind: 'node', address: name } },
  })
  const value = withPath(
    path({
      arrivesAt: HOSTILE,
      steps,
      outcomes: [reached('10.244.0.1', 1), forwarded(HOSTILE), forwarded('eth1')],
      limits: [HOSTILE],
    }),
  )
  for (const columns of [1, 20, 40, 80, 120, undefined]) {
    const width = Math.min(120, Math.max(20, columns ?? 80))
    for (const line of lines(value, columns)) {
      // oxlint-disable-next-line no-control-regex
      assert.doesNotMatch(line, /[\u0000-\u001f\u202e]/)
      // Words and commands are never broken.
      if (line.length > width) assert.match(line.trim(), /^(ip address add .*|\S+( +\S+)?)$/, `${columns}: ${line}`)
    }
  }
})

test('only a terminal gets colours', () => {
  const style = styleFor({ isTTY: true }, {})
  const coloured = explanationText(explanation('demo/web'), { style, columns: 80 }).map(finishLine).join('\n')
  assert.ok(coloured.includes('\u001b[31m'), 'what is missing is red')
  const plain = explanationText(explanation('demo/web'), { style: styleFor({ isTTY: false }, {}), columns: 80 })
  assert.ok(!plain.join('').includes('\u001b'))
})

test('packetsTo asks for one packet of each source of the family', () => {
  const nodeIps = { IPv4: '10.0.2.15' }
  const to = (key: string, sources: readonly string[] | undefined) =>
    packetsTo(key, { sources, frontends: [], nodeIps }).map(({ source, destination, port, because }) => [
      source,
      destination,
      port,
      because,
    ])
  assert.deepEqual(to('10.96.0.1:80/tcp', ['192.0.2.7', 'fd00::7']), [['192.0.2.7', '10.96.0.1', 80, '']])
  assert.deepEqual(to('10.96.0.1:80/tcp', undefined), [[undefined, '10.96.0.1', 80, '']])
  assert.deepEqual(to('*:30080/tcp', undefined), [[undefined, '10.0.2.15', 30080, '']])
  assert.deepEqual(to('[*]:30080/tcp', undefined), [[undefined, '', 30080, 'no IPv6 address of this node is known']])
  assert.match(String(to('[fd00::1]:80/tcp', ['192.0.2.7'])[0]?.[3]), /no IPv6 address, so it cannot connect/)
})
