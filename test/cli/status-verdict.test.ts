import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Status } from '../../src/cli/node-status.ts'
import { verdictOf } from '../../src/cli/status-verdict.ts'
import type { DaemonView, WrongRow } from '../../src/inspect/view.ts'
import { DAEMON, IPVS_MODE, KNOWN, rowsOf, NO_MATCH, WRONG } from './known-status.ts'

const wrong =
  (state: WrongRow['state']) =>
  (key: string): WrongRow => ({ table: 'routes', key, state })

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
      { ...KNOWN, rows: rowsOf({ missing: 5 }, ['a', 'b', 'c', 'd', 'e'].map(wrong('missing'))) },
      false,
      /^the kernel lacks 5 objects: a \(routes\), b \(routes\), c \(routes\) and 2 more$/,
    ],
    [{ ...KNOWN, rows: rowsOf({ missing: 5 }) }, false, /^the kernel lacks 5 objects$/],
    [
      { ...KNOWN, rows: rowsOf({ differs: 1 }, [wrong('differs')('a')]) },
      false,
      /^the kernel has 1 object otherwise than wanted: a \(routes\)$/,
    ],
    [{ ...KNOWN, rows: rowsOf({ extra: 1, draining: 2 }, [wrong('extra')('a')]) }, true, /^$/],
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

test('verdictOf notes chains that may translate packets to Services before the firewall does, in ipvs mode only', () => {
  const natChains = [
    { chain: 'inet cni_hostport prerouting', priority: -100, takesFrom: ['iptables'] },
    { chain: 'inet early x', priority: -300, takesFrom: ['iptables', 'nftables'] },
  ] as const
  const notes = (change: Partial<DaemonView>): readonly string[] =>
    verdictOf({ ...KNOWN, natChains, daemon: { ...DAEMON, ...change } }).notes
  const firewall = (name: 'iptables' | 'nftables') => ({ firewall: { name, configured: 'auto', reason: 'because' } })
  const rest = ' of nf_tables may take packets to Services ("kube-ipvs doctor" says how)'
  const both = [`the chains "inet cni_hostport prerouting", "inet early x"${rest}`]
  assert.deepEqual(notes(firewall('iptables')), both)
  assert.deepEqual(notes({}), both)
  assert.deepEqual(notes(firewall('nftables')), [`the chain "inet early x"${rest}`])
  assert.deepEqual(notes({ mode: 'iptables', configuredMode: 'iptables' }), [])
})

test('verdictOf only notes programs that may have a proxy inside them, because they may have it switched off', () => {
  const processes = [
    { pid: 5, name: 'kube-ipvs' },
    { pid: 6, name: 'k3s-server' },
    { pid: 7, name: 'kube-router' },
  ]
  const { fine, notes } = verdictOf({ ...KNOWN, processes })
  assert.equal(fine, true)
  assert.match(notes[0] ?? '', /^a proxy may run inside "k3s-server" \(pid 6\), "kube-router" \(pid 7\) \(/)
})
