import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { IpvsStatus, Status, VirtualServerStatus } from '../../src/cli/status.ts'
import { remarksOn } from '../../src/cli/daemon-remarks.ts'
import type { FlagValues } from '../../src/cli/flags.ts'
import { filterStatus, statusFilter } from '../../src/cli/status-filter.ts'
import { statusText } from '../../src/cli/status-text.ts'
import { spanText } from '../../src/cli/status-words.ts'
import { verdictOf } from '../../src/cli/status-verdict.ts'
import type { DaemonView } from '../../src/inspect/view.ts'
import type { Problem } from '../../src/values/errors.ts'

const VIRTUAL: VirtualServerStatus = {
  key: '10.96.0.1:80/tcp',
  scheduler: 'rr',
  flags: [],
  persistenceTimeoutSeconds: 0,
  realServers: [
    {
      key: '10.244.0.1:8080',
      forwarding: 'masquerade',
      weight: 1,
      activeConnections: 2,
      inactiveConnections: 0,
      draining: false,
    },
    {
      key: '10.244.0.2:8080',
      forwarding: 'masquerade',
      weight: 0,
      activeConnections: 1,
      inactiveConnections: 0,
      draining: true,
    },
  ],
}
const IPVS: IpvsStatus = {
  version: '1.2.1',
  timeoutsSeconds: { tcp: 900, tcpFin: 120, udp: 300 },
  virtualServers: [VIRTUAL],
  fwmarkVirtualServers: 0,
  unknownVirtualServers: 0,
}
const EMPTY: Status = {
  mode: null,
  fallback: null,
  processes: [],
  proxy: { address: '127.0.0.1:10249', answers: false },
  version: '0.1.0',
  kernel: '6.12.0',
  device: null,
  localRoutes: [],
  ipv6Forwarding: true,
  iptables: { backEnd: 'nft', reason: 'the kernel has no legacy tables', other: null },
  sets: { count: 34, entries: 7, grown: [] },
  ipvs: { ...IPVS, virtualServers: [] },
  modes: [],
  rules: null,
  verdict: { fine: null, reasons: ['no daemon answers'], notes: [] },
  socket: '/run/kube-ipvs/kube-ipvs.sock',
  daemon: null,
  daemonUnknown: { unknown: 'no-daemon', reason: 'no daemon answers' },
  missing: null,
}
const IPVS_MODE: Status = { ...EMPTY, mode: 'ipvs', device: { kind: 'dummy', addresses: ['10.96.0.1/32'] }, ipvs: IPVS }

const lines = (status: Status): string[] => statusText(status, { style: (_, text) => text })
const row = (status: Status, name: string): string | undefined =>
  lines(status)
    .find((line) => line.startsWith(`${name} `))
    ?.slice(name.length)
    .trim()

test('statusText says in which mode the node is, and how that is known', () => {
  const answers = { address: '127.0.0.1:10249', answers: true }
  const rows: readonly (readonly [status: Status, text: string])[] = [
    [{ ...EMPTY, mode: 'iptables', proxy: answers }, 'iptables, reported by the proxy at 127.0.0.1:10249'],
    [IPVS_MODE, 'ipvs, according to the kernel; no proxy answers at 127.0.0.1:10249'],
    [EMPTY, 'none; no proxy answers at 127.0.0.1:10249'],
    [
      { ...IPVS_MODE, mode: null, rules: [] },
      'ipvs and iptables, according to the kernel; no proxy answers at 127.0.0.1:10249',
    ],
  ]
  for (const [status, text] of rows) assert.equal(row(status, 'mode'), text)
})

test('statusText names running proxies when there are several', () => {
  const processes = [
    { pid: 5, name: 'kube-ipvs' },
    { pid: 812, name: 'a"b' },
  ]
  assert.equal(row({ ...EMPTY, processes: processes.slice(1) }, 'proxies'), undefined)
  const text = String.raw`"kube-ipvs" (pid 5), "a\"b" (pid 812): of two proxies each undoes what the other writes`
  assert.equal(row({ ...EMPTY, processes }, 'proxies'), text)
})

test('statusText names chains in the back end of iptables that is not in use', () => {
  assert.equal(row(EMPTY, 'other back end'), undefined)
  const other = { backEnd: 'legacy', chains: 7 } as const
  const status = { ...EMPTY, iptables: { ...EMPTY.iptables, other } }
  assert.match(row(status, 'other back end') ?? '', /^7 chains of a proxy are in iptables-legacy too/)
})

test('statusText has a column of Services only when they were listed', () => {
  assert.deepEqual(lines(IPVS_MODE).slice(-3), [
    'VIRTUAL SERVER    SCHEDULER  REAL SERVER          WEIGHT  ACTIVE  INACTIVE',
    '10.96.0.1:80/tcp  rr         10.244.0.1:8080           1       2         0',
    '                             10.244.0.2:8080  0 draining       1         0',
  ])
  assert.match(row(IPVS_MODE, 'names') ?? '', /^the kernel has none, and no daemon answers; --config/)
  const foreign = { ...VIRTUAL, key: '192.0.2.1:80/tcp', service: null, realServers: [] }
  const virtualServers = [{ ...VIRTUAL, service: 'demo/web:http' }, foreign]
  const named: Status = { ...IPVS_MODE, ipvs: { ...IPVS, virtualServers, namesFrom: 'the API server' } }
  assert.deepEqual(lines(named).slice(-4), [
    'VIRTUAL SERVER    SERVICE        SCHEDULER  REAL SERVER                        WEIGHT  ACTIVE  INACTIVE',
    '10.96.0.1:80/tcp  demo/web:http  rr         10.244.0.1:8080                         1       2         0',
    '                                            10.244.0.2:8080                0 draining       1         0',
    '192.0.2.1:80/tcp  none           rr         none: connections are refused',
  ])
  assert.equal(row(named, 'names'), 'of Services, from the API server')
})

test('statusText of iptables mode shows what the rules serve, and nothing of IPVS', () => {
  const status: Status = {
    ...EMPTY,
    mode: 'iptables',
    ipvs: null,
    rules: [
      {
        service: 'demo/web:http',
        key: '10.96.0.1:80/tcp',
        kind: 'cluster IP',
        endpoints: ['10.244.0.1:8080', '10.244.0.2:8080'],
        without: undefined,
      },
      { service: 'demo/none', key: '0.0.0.0:30080/tcp', kind: 'node port', endpoints: [], without: 'dropped' },
    ],
  }
  assert.deepEqual(lines(status), [
    'Cannot tell whether this node is fine: no daemon answers',
    '',
    'kube-ipvs  0.1.0',
    'mode       iptables, according to the kernel; no proxy answers at 127.0.0.1:10249',
    'daemon     no daemon answers',
    'kernel     6.12.0, no IPVS',
    'iptables   nft: the kernel has no legacy tables',
    'rules      2 Service ports, 2 addresses; names are comments of the rules',
    '',
    'ADDRESS            SERVICE        KIND        ENDPOINT',
    '10.96.0.1:80/tcp   demo/web:http  cluster IP  10.244.0.1:8080',
    '                                              10.244.0.2:8080',
    '0.0.0.0:30080/tcp  demo/none      node port   none: connections are dropped',
  ])
})

test('statusText shows why the node is not in ipvs mode, and the remedy', () => {
  const fallback = { reason: 'ipvs-missing', message: 'the kernel has no IPVS', remedy: 'load it' } as const
  const proxy = { address: '127.0.0.1:10249', answers: true }
  const running: Status = { ...EMPTY, mode: 'iptables', proxy, fallback, ipvs: null }
  assert.equal(row(running, 'fallback'), 'from ipvs mode: the kernel has no IPVS (ipvs-missing)')
  assert.equal(row(running, 'remedy'), 'load it')
  const stopped: Status = { ...EMPTY, fallback, ipvs: null }
  assert.equal(row(stopped, 'fallback'), 'ipvs mode cannot start: the kernel has no IPVS (ipvs-missing)')
  assert.equal(row(EMPTY, 'fallback'), undefined)
})

test('statusText counts virtual IPs that have a local route', () => {
  assert.equal(row(IPVS_MODE, 'local routes'), undefined)
  assert.equal(row({ ...IPVS_MODE, localRoutes: ['10.96.0.1', '10.96.0.2'] }, 'local routes'), '2 virtual IPs')
})

const DAEMON: DaemonView = {
  format: 1,
  version: '0.1.0',
  pid: 7,
  uptimeSeconds: 4000,
  mode: 'ipvs',
  configuredMode: 'ipvs',
  fallback: null,
  virtualAddresses: 'addresses',
  families: ['IPv4'],
  node: { name: 'node0', zone: null, ips: {}, nodePortAddresses: { IPv4: [], IPv6: [] }, podCidrs: [] },
  settings: {
    masqueradeAll: false,
    masqueradeBit: 14,
    localhostNodePorts: true,
    tcpBeLiberal: false,
    clusterCIDR: '',
    detectLocalMode: 'ClusterCIDR',
    bridgeInterface: '',
    interfaceNamePrefix: '',
    scheduler: 'rr',
    serviceAnnotations: true,
    drainDeadlineSeconds: null,
  },
  health: { healthy: true, reason: null, pending: [] },
  awaiting: [],
  counts: { services: 1, frontends: 2, conflicts: 0, draining: 0, problems: 0 },
  passes: [{ what: 'tables', endedSecondsAgo: 3, durationMs: 2, applied: 4, failed: 0, unreadable: 0 }],
  problems: [],
  conflicts: [],
}
const KNOWN = { ...IPVS_MODE, daemon: DAEMON, daemonUnknown: null, missing: { count: 0, keys: [] } }
const NO_MATCH: Problem = { code: 'x', about: 'node', subject: 'module xt_statistic', message: 'no\x1b[2Jmatch' }
const WRONG: Problem = {
  code: 'invalid-annotation',
  about: 'object',
  subject: 'service demo/web',
  field: 'metadata',
  message: 'no such scheduler',
}

test('verdictOf says whether the node is fine, why not, and what it does not know', () => {
  const two = [
    { pid: 5, name: 'kube-ipvs' },
    { pid: 6, name: 'kube-proxy' },
  ]
  const from = (change: Partial<DaemonView>): Status => ({ ...KNOWN, daemon: { ...DAEMON, ...change } })
  const pass = { what: 'IPv6', endedSecondsAgo: 1, durationMs: 1, applied: 0, failed: 2, unreadable: 1 } as const
  const rows: readonly (readonly [status: Status, fine: boolean | null, text: RegExp])[] = [
    [KNOWN, true, /^$/],
    [from({ problems: [WRONG], counts: { ...DAEMON.counts, problems: 3 } }), true, /^$/],
    [
      from({ health: { healthy: false, reason: 'a pass has not ended for 61 s', pending: [] } }),
      false,
      /^a pass has not ended/,
    ],
    [from({ awaiting: ['services', 'nodes'] }), false, /waits for the list of services, nodes$/],
    [
      from({ passes: [pass] }),
      false,
      /^2 operations of the last pass over the rules of IPv6 failed; 1 table of the kernel/,
    ],
    [
      from({ room: { used: 90, limit: 100, leftOut: { services: 1, frontends: 3 } } }),
      false,
      /^the room for 100 real servers \(kubeIPVS\.maxRealServers\) does not suffice: 3 frontends of 1 Service left out$/,
    ],
    [from({ room: { used: 100, limit: 100, leftOut: { services: 0, frontends: 0 } } }), true, /^$/],
    [from({ problems: [NO_MATCH] }), false, /^module xt_statistic: no\\x1b\[2Jmatch$/],
    [
      from({ problems: Array.from({ length: 5 }, () => NO_MATCH) }),
      false,
      /; 2 more problems of the node \(--problems\)$/,
    ],
    [
      from({ mode: 'iptables', fallback: { reason: 'ipvs-missing', message: 'no IPVS', remedy: '' } }),
      false,
      /^it runs in iptables mode: no IPVS$/,
    ],
    [from({ mode: 'iptables' }), false, /^it still runs in iptables mode instead of ipvs mode$/],
    [
      { ...KNOWN, missing: { count: 5, keys: ['a', 'b', 'c', 'd', 'e'] } },
      false,
      /^the kernel lacks 5 addresses of Services: a, b, c and 2 more$/,
    ],
    [
      { ...KNOWN, processes: two },
      false,
      /^2 proxies run and undo what the others write: "kube-ipvs" \(pid 5\), "kube-proxy"/,
    ],
    [{ ...KNOWN, device: null }, false, /^kube-ipvs0 does not exist/],
    [{ ...KNOWN, device: null, localRoutes: ['10.96.0.1'] }, true, /^$/],
    [IPVS_MODE, false, /^no proxy answers: /],
    [
      { ...IPVS_MODE, processes: two.slice(1) },
      null,
      /^no daemon answers, so health, problems and what is missing are unknown$/,
    ],
    [{ ...IPVS_MODE, proxy: { ...IPVS_MODE.proxy, answers: true } }, null, /are unknown$/],
    [{ ...IPVS_MODE, daemonUnknown: { unknown: 'not-permitted', reason: 'only root' } }, null, /^only root, so /],
    [{ ...IPVS_MODE, daemonUnknown: { unknown: 'other-format', reason: 'format 2' } }, null, /^format 2, so /],
    [{ ...IPVS_MODE, daemonUnknown: { unknown: 'no-answer', reason: 'it hangs' } }, false, /^it hangs$/],
  ]
  for (const [status, fine, text] of rows) {
    const verdict = verdictOf(status)
    assert.equal(verdict.fine, fine, JSON.stringify(verdict))
    assert.match(verdict.reasons.join('; '), text)
  }
  const counts = { ...DAEMON.counts, problems: 3, conflicts: 1, draining: 2 }
  assert.deepEqual(verdictOf(from({ problems: [WRONG], counts })).notes, [
    '3 problems with objects (--problems)',
    '1 claim lost to another Service (--problems)',
    '2 real servers draining (--draining)',
  ])
})

test('statusText begins with the verdict in its colour', () => {
  const first = (status: Status): string | undefined =>
    statusText({ ...status, verdict: verdictOf(status) }, { style: (colour, text) => `<${String(colour)}>${text}` })[0]
  assert.equal(first(KNOWN), '<green>This node is fine: ipvs mode, 1 Service, 2 addresses')
  assert.match(first({ ...KNOWN, device: null }) ?? '', /^<red>This node is not fine: kube-ipvs0 /)
  assert.match(first({ ...IPVS_MODE, processes: [{ pid: 1, name: 'x' }] }) ?? '', /^<yellow>Cannot tell /)
})

test('statusText tells how much room is left when it is little', () => {
  const room = (used: number, services: number): string | undefined =>
    row(
      { ...KNOWN, daemon: { ...DAEMON, room: { used, limit: 100, leftOut: { services, frontends: 2 * services } } } },
      'room',
    )
  assert.equal(row(KNOWN, 'room'), undefined)
  assert.equal(room(79, 0), undefined)
  assert.equal(room(80, 0), '80 of 100 real servers (kubeIPVS.maxRealServers)')
  assert.equal(
    room(70, 3),
    '70 of 100 real servers (kubeIPVS.maxRealServers); 6 frontends of 3 Services left out: --problems names them',
  )
})

test('statusText tells what the daemon knows', () => {
  const counts = { ...DAEMON.counts, conflicts: 2 }
  assert.equal(
    row({ ...KNOWN, daemon: { ...DAEMON, counts } }, 'problems'),
    '2 claims lost to another Service: --problems lists them',
  )
  assert.equal(row(KNOWN, 'problems'), undefined)
  assert.equal(row(KNOWN, 'daemon'), 'kube-ipvs 0.1.0, pid 7, up 1h6m, answers at /run/kube-ipvs/kube-ipvs.sock')
  assert.equal(row(KNOWN, 'last passes'), 'tables 3s ago, 4 operations in 2 ms')
  assert.equal(row(KNOWN, 'mode'), 'ipvs')
  const [first, second] = VIRTUAL.realServers
  assert.ok(first !== undefined && second !== undefined)
  const drained = { ...VIRTUAL, realServers: [first, { ...second, drain: { seconds: 75, deadlineSeconds: 300 } }] }
  const text = lines({ ...KNOWN, ipvs: { ...IPVS, virtualServers: [drained] } }).at(-1)
  assert.match(text ?? '', /10\.244\.0\.2:8080 +0 draining 1m15s of 5m0s +1 +0$/)
})

test('statusText fits any terminal of 20 columns or more', () => {
  const virtualServers = [
    {
      ...VIRTUAL,
      key: '[fd00:10:96::abcd:1234]:65535/sctp',
      service: 'a-long-namespace/a-very-long-name-of-a-service:https',
    },
  ]
  const problems = [WRONG, NO_MATCH]
  const conflicts = [{ key: '10.96.0.1:80/tcp', owner: 'demo/web', others: ['demo/other', 'demo/third'] }]
  const rules = [
    { service: 'demo/web:http', key: '10.96.0.1:80/tcp', kind: 'cluster IP', endpoints: [], without: 'refused' },
  ] as const
  const status = { ...KNOWN, rules, ipvs: { ...IPVS, virtualServers }, daemon: { ...DAEMON, problems, conflicts } }
  for (const isPartial of [false, true])
    for (let width = 20; width <= 200; width++) {
      const all = statusText(status, { style: (_, text) => text, width, isPartial })
      for (const line of all) assert.ok(line.length <= width, `${width}: ${line}`)
      assert.ok(all.join('').replaceAll(' ', '').includes('fd00:10:96::abcd:1234'), `${width}`)
    }
  const wide = statusText(status, { style: (_, text) => text, width: 200 })
  assert.ok(wide.some((line) => /VIRTUAL SERVER +SERVICE +SCHEDULER +REAL SERVER +WEIGHT +ACTIVE +INACTIVE/.test(line)))
})

test('filterStatus keeps what was asked for', () => {
  const other = {
    ...VIRTUAL,
    key: '10.96.0.2:53/udp',
    realServers: VIRTUAL.realServers.slice(0, 1),
    service: 'kube-system/dns:dns',
  }
  const virtualServers = [
    { ...VIRTUAL, service: 'demo/web:http' },
    other,
    { ...other, key: '192.0.2.1:80/tcp', service: null },
  ]
  const conflicts = [{ key: '10.96.0.9:80/tcp', owner: 'demo/a', others: ['kube-system/dns'] }]
  const status: Status = {
    ...KNOWN,
    ipvs: { ...IPVS, virtualServers },
    daemon: { ...DAEMON, problems: [WRONG], conflicts },
  }
  const keys = (words: readonly string[], flags: FlagValues): readonly string[] =>
    filterStatus(status, statusFilter(words, flags)).ipvs?.virtualServers.map(({ key }) => key) ?? []
  assert.deepEqual(keys([], {}).length, 3)
  assert.deepEqual(keys(['demo/web'], {}), ['10.96.0.1:80/tcp'])
  assert.deepEqual(keys(['demo/web', 'kube-system/dns'], {}), ['10.96.0.1:80/tcp', '10.96.0.2:53/udp'])
  assert.deepEqual(keys(['demo/we'], {}), [])
  assert.deepEqual(keys([], { address: '10.96.0.2' }), ['10.96.0.2:53/udp'])
  assert.deepEqual(keys([], { address: '10.244.0.2' }), ['10.96.0.1:80/tcp'])
  assert.deepEqual(keys([], { draining: true }), ['10.96.0.1:80/tcp'])
  assert.deepEqual(keys([], { problems: true }), ['10.96.0.1:80/tcp', '10.96.0.2:53/udp'])
  assert.deepEqual(keys(['kube-system/dns'], { draining: true }), [])
  const ofPod = filterStatus(status, statusFilter([], { pod: 'demo/web-1' }), ['10.244.0.2:8080', '10.244.0.3:8080'])
  assert.deepEqual(
    ofPod.ipvs?.virtualServers.map(({ key }) => key),
    ['10.96.0.1:80/tcp'],
  )
  assert.deepEqual(filterStatus(status, statusFilter([], { pod: 'demo/web-2' })).ipvs?.virtualServers, [])
  assert.throws(() => statusFilter([], { pod: 'web-1' }), /--pod: "web-1" is not the NAMESPACE\/NAME of a pod$/)
  const drained = filterStatus(status, statusFilter([], { draining: true })).ipvs?.virtualServers[0]?.realServers
  assert.deepEqual(
    drained?.map(({ key }) => key),
    ['10.244.0.2:8080'],
  )
  const elsewhere = filterStatus(status, statusFilter([], { address: '10.244.0.2' })).daemon
  assert.deepEqual([elsewhere?.problems, elsewhere?.conflicts], [[], []])
  const daemon = filterStatus(status, statusFilter(['kube-system/dns'], { problems: true })).daemon
  assert.deepEqual([daemon?.problems, daemon?.conflicts], [[], conflicts])
  assert.throws(() => statusFilter([], { address: '10.96' }), /^CodedError: --address: "10.96" is not an IP address$/)
})

test('remarksOn says what the daemon does that explains a difference, and nothing of a daemon that is done', () => {
  assert.deepEqual(remarksOn(DAEMON, 'ipvs'), [])
  const busy: DaemonView = {
    ...DAEMON,
    awaiting: ['endpointslices'],
    health: { healthy: true, reason: null, pending: [{ what: 'a pass has not ended', seconds: 2 }] },
    passes: [{ what: 'tables', endedSecondsAgo: 1, durationMs: 1, applied: 0, failed: 1, unreadable: 2 }],
    counts: { ...DAEMON.counts, draining: 3 },
    problems: [{ code: 'rival-writes', about: 'node', subject: 'node0', message: 'another program\nwrites' }],
  }
  assert.deepEqual(remarksOn(busy, 'iptables'), [
    'the daemon is configured for ipvs mode, and these differences are those of iptables mode',
    'the daemon waits for the list of endpointslices, and removes nothing before it has all',
    'the daemon is at work: a pass has not ended (2s)',
    'the last pass of the daemon failed at 1 operation, which it retries',
    'the daemon could not read 2 tables in its last pass',
    'another program\\nwrites',
    '3 real servers draining: they are no differences, and are removed when their connections have ended',
  ])
})

test('spanText shows the two largest units', () => {
  const rows = [
    [0.4, '0s'],
    [45, '45s'],
    [185, '3m5s'],
    [7200, '2h0m'],
    [100 * 3600, '4d4h'],
    [-1, '0s'],
  ] as const
  for (const [seconds, text] of rows) assert.equal(spanText(seconds), text)
})
