/** The status of a node: empty, in ipvs mode, and as its daemon knows it. */
import type { IpvsStatus, Status, VirtualServerStatus } from '../../src/cli/node-status.ts'
import type { DaemonView, WrongRow } from '../../src/inspect/view.ts'
import { noRows, type RowCounts } from '../../src/sync/plan.ts'
import type { Problem } from '../../src/values/errors.ts'

export const VIRTUAL: VirtualServerStatus = {
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
export const IPVS: IpvsStatus = {
  version: '1.2.1',
  timeoutsSeconds: { tcp: 900, tcpFin: 120, udp: 300 },
  virtualServers: [VIRTUAL],
  fwmarkVirtualServers: 0,
  unknownVirtualServers: 0,
}
export const EMPTY: Status = {
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
  firewalls: [],
  natChains: [],
  rules: null,
  verdict: { fine: null, reasons: ['no daemon answers'], notes: [] },
  socket: '/run/kube-ipvs/kube-ipvs.sock',
  daemon: null,
  daemonUnknown: { unknown: 'no-daemon', reason: 'no daemon answers' },
  rows: null,
}
export const IPVS_MODE: Status = {
  ...EMPTY,
  mode: 'ipvs',
  device: { kind: 'dummy', addresses: ['10.96.0.1/32'] },
  ipvs: IPVS,
}

export const DAEMON: DaemonView = {
  format: 3,
  room: { used: 0, limit: 1000, leftOut: { services: 0, frontends: 0 } },
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
    clusterCIDR: '',
    scheduler: 'rr',
    strictARP: false,
    excludeCIDRs: [],
    fallback: 'iptables',
    serviceAnnotations: true,
  },
  health: { healthy: true, reason: null, pending: [] },
  awaiting: [],
  counts: { services: 1, frontends: 2, conflicts: 0, draining: 0, problems: 0 },
  passes: [{ what: 'tables', endedSecondsAgo: 3, durationMs: 2, applied: 4, failed: 0, unreadable: 0 }],
  problems: [],
  conflicts: [],
}
/** Rows of one table of virtual servers. */
export function rowsOf(counts: Partial<RowCounts>, wrong: readonly WrongRow[] = []): NonNullable<Status['rows']> {
  const all = { ...noRows(), present: 4, ...counts }
  return { ...all, tables: [{ table: 'virtual-servers', ...all }], unread: [], wrong }
}
export const KNOWN = { ...IPVS_MODE, daemon: DAEMON, daemonUnknown: null, rows: rowsOf({}) }
export const NO_MATCH: Problem = { code: 'x', about: 'node', subject: 'module xt_statistic', message: 'no\x1b[2Jmatch' }
export const WRONG: Problem = {
  code: 'invalid-annotation',
  about: 'object',
  subject: 'service demo/web',
  field: 'metadata',
  message: 'no such scheduler',
}
