/**
 * What proxies left in tables of iptables-nft, and their sets, removed over netlink: without a
 * program, as where the nftables firewall runs or no iptables is installed.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { beforeEach, describe, it } from 'node:test'
import { openNetfilter } from '../../native/open.ts'
import { ensureCounter } from '../../src/modes/iptables/counters.ts'
import { isIptablesLeft, removeIptablesAfterSwitch } from '../../src/modes/leftovers/iptables-leftovers.ts'
import { CLEANUP_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import { removeChainsOverNetlink } from '../../src/modes/leftovers/nft-chains.ts'
import {
  listPrivateTables,
  removePrivateTables,
  withdrawPrivateTables,
} from '../../src/modes/leftovers/nft-leftovers.ts'
import { leftoverKinds } from '../../src/modes/ipvs/leftover-removals.ts'
import { Budget } from '../../src/values/budget.ts'
import { IP_FAMILIES } from '../../src/values/protocol.ts'
import { deadline } from '../support/deadline.ts'
import { freshNode, kubeLines, rulesText, setsText } from '../support/kernel-state.ts'
import { run, sh } from '../support/programs.ts'
import { recordingLog } from '../support/recording-log.ts'
import { recordingPath } from '../support/recordings.ts'
import { needs } from './needs.ts'

const CASE = 'cases/all-kinds/recorded'
/** Of another program: it marks its packets with a chain of the proxy, and has a chain with a name of its own. */
const FOREIGN = [
  'iptables-nft -t nat -N CNI-HOSTPORT-SETMARK',
  'iptables-nft -t nat -A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ',
  'iptables-nft -t filter -N MINE',
  'iptables-nft -t filter -A FORWARD -s 192.0.2.0/24 -j MINE',
]
/** Rules of iptables mode name them. */
const COUNTERS = ['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts']
/** Of the test that runs. */
let signal: AbortSignal

beforeEach(() => {
  signal = AbortSignal.timeout(deadline(60_000))
})

/** The rules and sets that kube-proxy wrote in this mode. */
async function kubeProxyRan(mode: 'ipvs' | 'iptables'): Promise<void> {
  const netlink = openNetfilter()
  for (const counter of COUNTERS) await ensureCounter(netlink, counter)
  netlink.close()
  const recorded = (name: string): string => readFileSync(recordingPath(`${CASE}/${mode}/1/${name}`), 'utf8')
  if (mode === 'ipvs') run(['ipset', 'restore'], recorded('ipset.txt'))
  for (const program of ['iptables', 'ip6tables'])
    run([`${program}-nft-restore`, '--noflush'], recorded(`${program}.txt`))
}

const kube = (): string[] => [...kubeLines('iptables-nft-save'), ...kubeLines('ip6tables-nft-save')]

const LARGE = 1_000
const times = (line: (index: number) => string): string =>
  Array.from({ length: LARGE }, (_, index) => `${line(index)}\n`).join('')
const RESTORE = ['iptables-nft-restore', '--noflush'] as const
/**
 * Of other programs, and with commands that add very many of one kind. Debian's nft crashes with so
 * many commands on a busy machine, so that it adds tables one by one, and few.
 */
const LARGE_LISTS: readonly [what: string, add: () => void][] = [
  ['chains', () => run(RESTORE, `*nat\n${times((index) => `:OF-OTHERS-${index} - [0:0]`)}COMMIT\n`)],
  [
    'rules',
    () =>
      run(RESTORE, `*nat\n${times((index) => `-A CNI-HOSTPORT-SETMARK -s 10.0.${index >> 8}.${index & 255}`)}COMMIT\n`),
  ],
  [
    'sets',
    () =>
      run(
        ['ipset', 'restore'],
        times((index) => `create of-others-${index} hash:ip`),
      ),
  ],
  ['tables', () => sh(Array.from({ length: 100 }, (_, index) => `nft add table ip of-others-${index}`).join('\n'))],
]

describe('what another firewall left', needs('iptables-nft', 'nft'), () => {
  it('is looked for within a budget: all of the lists that other programs make longer', async () => {
    freshNode()
    sh('iptables-nft -t nat -N KUBE-MARK-MASQ')
    for (const command of FOREIGN.slice(0, 2)) sh(command)
    const turns = async (): Promise<number> => {
      let count = 0
      const nextTurn = async (): Promise<void> => void count++
      const budget = new Budget({ now: () => 0, nextTurn, stretchMs: 0 })
      for (const { kind, find } of leftoverKinds('nftables', recordingLog(), () => 0))
        assert.equal(await find(signal, budget), false, kind)
      return count
    }
    let before = await turns()
    for (const [what, add] of LARGE_LISTS) {
      add()
      const after = await turns()
      assert.ok(after > before, `${after} turns with more ${what}, ${before} before`)
      before = after
    }
  })
})

describe('chains of proxies in tables of iptables-nft', needs('iptables-nft', 'nft'), () => {
  beforeEach(freshNode)

  for (const mode of ['ipvs', 'iptables'] as const)
    it(`are removed over netlink with the sets that they name (${mode} mode), and those of others are not`, async () => {
      await kubeProxyRan(mode)
      for (const command of FOREIGN) sh(command)
      assert.ok(kube().length > 30)
      const log = recordingLog()
      assert.equal(await isIptablesLeft(signal), true)
      await removeIptablesAfterSwitch(log, () => performance.now(), signal)
      assert.equal(await isIptablesLeft(signal), false)
      // Others jump to it, so it still marks.
      assert.deepEqual(
        kube()
          .map((line) => line.replace(/ \[\d+:\d+\]$/, ''))
          // kubelet may have written it.
          .filter((line) => !line.includes('KUBE-FIREWALL')),
        [
          ':KUBE-MARK-MASQ -',
          '-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ',
          '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
        ],
      )
      assert.match(rulesText('iptables-nft-save'), /-A FORWARD -s 192\.0\.2\.0\/24 -j MINE/)
      assert.doesNotMatch(setsText('list', '-n'), /KUBE-/)
      assert.deepEqual(
        log.lines.map(({ message }) => message),
        ['Removed the rules and sets of iptables'],
      )
    })

  it('are named by a look that changes nothing, and are not found twice', async () => {
    await kubeProxyRan('iptables')
    const before = kube()
    const { commands } = await removeChainsOverNetlink(IP_FAMILIES, CLEANUP_LAYOUT, signal, { dryRun: true })
    assert.deepEqual(kube(), before)
    for (const command of ['nft flush chain ip nat KUBE-SERVICES', 'nft delete chain ip6 filter KUBE-FORWARD'])
      assert.ok(commands.includes(command), command)
    assert.ok(commands.some((command) => /^nft delete rule ip nat PREROUTING handle \d+$/.test(command)))
    // The commands do what is done without them.
    for (const command of commands) sh(command)
    assert.ok(kube().every((line) => line.includes('KUBE-FIREWALL')))
    await kubeProxyRan('iptables')
    const done = await removeChainsOverNetlink(IP_FAMILIES, CLEANUP_LAYOUT, signal)
    assert.deepEqual(done.failures, [])
    assert.ok(kube().every((line) => line.includes('KUBE-FIREWALL')))
    assert.deepEqual(await removeChainsOverNetlink(IP_FAMILIES, CLEANUP_LAYOUT, signal), { commands: [], failures: [] })
  })

  it('of kubelet stay', async () => {
    await kubeProxyRan('iptables')
    for (const program of ['iptables-nft', 'ip6tables-nft']) sh(`${program} -t mangle -N KUBE-KUBELET-CANARY`)
    await removeChainsOverNetlink(IP_FAMILIES, CLEANUP_LAYOUT, signal)
    const chains = kube().filter((line) => line.startsWith(':'))
    assert.deepEqual(chains.map((line) => line.split(' ')[0]).sort(), [
      ':KUBE-FIREWALL',
      ':KUBE-FIREWALL',
      ':KUBE-KUBELET-CANARY',
      ':KUBE-KUBELET-CANARY',
    ])
    assert.ok(kube().some((line) => line === '-A INPUT -j KUBE-FIREWALL'))
  })

  it('of a thousand Services are removed in as many transactions as it takes', async () => {
    const chains = Array.from(
      { length: 1000 },
      (_, index) =>
        `KUBE-SVC-${'ABCDEFGHIJ'.at(index % 10)}${String(index)
          .padStart(15, 'A')
          .replace(/[0189]/g, 'B')}`,
    )
    const unique = [...new Set(chains)]
    const text = unique.map((chain) => `:${chain} -`).join('\n')
    const rules = unique.map((chain) => `-A KUBE-SERVICES -d 10.0.0.1 -j ${chain}`).join('\n')
    run(
      ['iptables-nft-restore', '--noflush'],
      `*nat\n:KUBE-SERVICES -\n${text}\n-A PREROUTING -j KUBE-SERVICES\n${rules}\nCOMMIT\n`,
    )
    const { failures } = await removeChainsOverNetlink(['IPv4'], CLEANUP_LAYOUT, signal)
    assert.deepEqual([failures, kube()], [[], []])
  })
})

describe('the private tables', needs('nft'), () => {
  beforeEach(freshNode)
  const written = (): void =>
    void sh(`nft '
      add table ip kube-ipvs
      add set ip kube-ipvs cluster-ips { type ipv4_addr; }
      add element ip kube-ipvs cluster-ips { 10.96.0.1 }
      add chain ip kube-ipvs services
      add chain ip kube-ipvs nat-prerouting { type nat hook prerouting priority -105; }
      add rule ip kube-ipvs nat-prerouting jump services
      add rule ip kube-ipvs services ip daddr @cluster-ips meta mark set 0x4000
      add chain ip kube-ipvs refuse-unknown-ports
      add chain ip kube-ipvs filter-input { type filter hook input priority -5; }
      add rule ip kube-ipvs refuse-unknown-ports reject
      add rule ip kube-ipvs filter-input goto refuse-unknown-ports
      add table ip6 kube-ipvs
      add table inet kube-ipvs
      add table ip mine'`)

  it('keep only their refusals and their sets once they are withdrawn', async () => {
    written()
    await withdrawPrivateTables(new Set(['refuse-unknown-ports', 'filter-input']), signal)
    const table = sh('nft list table ip kube-ipvs')
    assert.doesNotMatch(table, /jump|meta mark/)
    assert.match(table, /elements = \{ 10\.96\.0\.1 \}/)
    assert.match(table, /reject[^]*goto refuse-unknown-ports/)
    await withdrawPrivateTables(new Set(['refuse-unknown-ports', 'filter-input']), signal)
  })

  it('are removed, and no table of another name or family', async () => {
    await removePrivateTables(recordingLog(), signal)
    written()
    assert.equal((await listPrivateTables(signal)).length, 2)
    const log = recordingLog()
    await removePrivateTables(log, signal)
    assert.deepEqual(
      log.lines.map(({ message }) => message),
      ['Removed what the nftables firewall left'],
    )
    assert.deepEqual(sh('nft list tables').trim().split('\n').sort(), ['table inet kube-ipvs', 'table ip mine'])
  })
})
