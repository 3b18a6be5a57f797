import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Status } from '../../src/cli/node-status.ts'
import { statusText } from '../../src/cli/status-text.ts'
import { verdictOf } from '../../src/cli/status-verdict.ts'
import { DAEMON, EMPTY, IPVS, IPVS_MODE, KNOWN, NO_MATCH, rowsOf, VIRTUAL, WRONG } from './known-status.ts'

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

test('statusText names chains of nft that translate destinations, without a daemon too', () => {
  const natChains = [{ chain: 'inet cni_hostport prerouting', priority: -100, takesFrom: ['iptables'] }] as const
  assert.equal(row({ ...EMPTY, natChains }, 'other nat'), 'inet cni_hostport prerouting (priority -100)')
  assert.equal(row(EMPTY, 'other nat'), undefined)
})

test('statusText names chains in the back end of iptables that is not in use', () => {
  assert.equal(row(EMPTY, 'other back end'), undefined)
  const other = { backEnd: 'legacy', chains: 7 } as const
  const status = { ...EMPTY, iptables: { ...EMPTY.iptables, other } }
  assert.match(row(status, 'other back end') ?? '', /^7 chains of a proxy are in iptables-legacy too/)
})

test('statusText counts objects by state', () => {
  assert.equal(row(KNOWN, 'objects'), '4 present')
  const rows = { ...rowsOf({ missing: 3, draining: 1 }), unread: ['routes'] }
  assert.equal(row({ ...KNOWN, rows }, 'objects'), '4 present, 3 missing, 1 draining, not counted: routes')
  assert.equal(row(IPVS_MODE, 'objects'), undefined)
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
  const outlier = { state: 'suspect', seconds: 12, nextTrialSeconds: 3 } as const
  const silent = { ...VIRTUAL, realServers: [first, { ...second, draining: false, outlier }] }
  const other = { ...KNOWN, ipvs: { ...IPVS, virtualServers: [silent] } }
  assert.match(lines(other).at(-1) ?? '', /10\.244\.0\.2:8080 +0 suspect 12s +1 +0$/)
  assert.equal(row(other, 'real servers'), '2, 1 that do not answer')
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
