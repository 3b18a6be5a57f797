import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type IpvsStatus, type Status, statusText, type VirtualServerStatus } from '../../src/cli/status.ts'

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
  rules: null,
}
const IPVS_MODE: Status = { ...EMPTY, mode: 'ipvs', device: { kind: 'dummy', addresses: ['10.96.0.1/32'] }, ipvs: IPVS }

const lines = (status: Status): string[] => statusText(status, (_, text) => text)
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
  assert.match(row(IPVS_MODE, 'names') ?? '', /^the kernel has none; --config/)
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
    'kube-ipvs  0.1.0',
    'mode       iptables, according to the kernel; no proxy answers at 127.0.0.1:10249',
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
