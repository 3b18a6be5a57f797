/**
 * Announcements of nf_tables on a real kernel: a flush is reported at once, our own restores and
 * foreign changes are not. And the choice of the back end where both exist.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, it, test } from 'node:test'
import { openNetfilter, openNetlinkGroups } from '../../native/open.ts'
import { NFNLGRP_NFTABLES, nftEvents } from '../../src/nftables/events.ts'
import { missingForNft } from '../../src/nftables/support.ts'
import { concernsUs } from '../../src/iptables/rule-changes.ts'
import { IptablesTable } from '../../src/iptables/table.ts'
import { chooseBackEnd } from '../../src/modes/iptables-back-end.ts'
import { renderIpvsRules } from '../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import { IPVS_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import { NETLINK_NETFILTER } from '../../src/netlink/constants.ts'
import type { Transport } from '../../src/netlink/transport.ts'
import { HostIptables } from '../../src/node/iptables-programs.ts'
import { reconciled } from '../../src/sync/reconciled.ts'
import { Reconciler } from '../../src/sync/reconciler.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { IP_FAMILIES, type IpFamily, type UnusableFamilies } from '../../src/values/protocol.ts'
import { everything } from '../modes/ipvs/iptables-firewall/rules/wanted.ts'
import { deadline, until } from '../support/deadline.ts'
import { isMet, needs } from './needs.ts'

/** Aborts a request to the kernel that takes long. */
const soon = (): AbortSignal => AbortSignal.timeout(deadline(60_000))

async function missing(): Promise<UnusableFamilies> {
  const netlink = openNetfilter()
  try {
    return await missingForNft(netlink, IP_FAMILIES, { signal: soon() })
  } finally {
    netlink.close()
  }
}

const choiceHere = () => chooseBackEnd(IP_FAMILIES, soon())

function sh(command: string): void {
  const { status, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8' })
  assert.equal(status, 0, `${command}\n${stderr}`)
}

/** A foreign table: its announcement arrives after all earlier ones. */
const FENCE = 'fence-of-this-test'

/** A transport that counts the announcements of the fence. */
function fenced(transport: Transport): { readonly transport: Transport; count(): number } {
  let count = 0
  return {
    count: () => count,
    transport: {
      portId: transport.portId,
      send: (bytes) => transport.send(bytes),
      receive() {
        const datagram = transport.receive()
        if (datagram !== undefined && Buffer.from(datagram).includes(FENCE)) count++
        return datagram
      },
      onReadable: (listener, background) => transport.onReadable(listener, background),
      close: () => transport.close(),
    },
  }
}

describe('nftEvents on a real kernel', needs('iptables-nft'), () => {
  const seen: string[] = []
  let fences = (): number => 0
  /** Events of everything that `change` does. */
  async function eventsAfter(change: () => Promise<void> | void): Promise<readonly string[]> {
    seen.length = 0
    await change()
    const before = fences()
    sh(`nft add table inet ${FENCE} && nft delete table inet ${FENCE}`)
    await until('the announcement of the fence', () => fences() >= before + 2)
    return [...seen]
  }

  it('reports foreign changes of our rules, and nothing else', async () => {
    sh('ipset create KUBE-CLUSTER-IP hash:ip,port')
    const choice = await choiceHere()
    assert.equal(choice.mode, 'nft')
    const host = new HostIptables(choice)
    const { transport, count } = fenced(openNetlinkGroups(NETLINK_NETFILTER, [NFNLGRP_NFTABLES]))
    fences = count
    const events = nftEvents(
      transport,
      (change) => concernsUs(change, IPVS_LAYOUT) && !host.isOwn(change.portId),
      ({ family, table }) => seen.push(`${family} ${table}`),
      { onOverrun: () => seen.push('overrun'), onFailure: () => seen.push('failed') },
    )
    events.start()
    try {
      const want = (family: IpFamily) => {
        const sync = new TableSync(new IptablesTable(family, host, IPVS_LAYOUT))
        const { items } = renderIpvsRules(everything(family, { filled: new Set(), outFilter: [] }))
        // KUBE-IPVS-FILTER and KUBE-NODE-PORT name sets that do not exist.
        for (const [key, item] of items)
          if (!/KUBE-(IPVS-FILTER|NODE-PORT)$/.test(key))
            sync.want(key, item.kind === 'chain' && key.endsWith('SERVICES') ? { ...item, rules: [] } : item)
        return new Reconciler([reconciled(sync, { atOnce: true })])
      }
      const pass = async () => {
        for (const family of ['IPv4', 'IPv6'] as const) {
          const report = await want(family).pass({ signal: soon(), now: () => performance.now(), mayRemove: true })
          assert.deepEqual(report.failures, [])
        }
      }
      assert.deepEqual(await eventsAfter(pass), [], 'our own restores')
      const asked = async () => assert.deepEqual(await missing(), {})
      assert.deepEqual(await eventsAfter(asked), [], 'the question whether nft works')
      const rows: readonly (readonly [command: string, expected: readonly string[]])[] = [
        ['iptables-nft -t nat -F KUBE-POSTROUTING', ['IPv4 nat']],
        ['ip6tables-nft -t nat -A KUBE-SERVICES -j RETURN', ['IPv6 nat']],
        ['iptables-nft -D FORWARD 1', ['IPv4 filter']],
        ['iptables-nft -A INPUT -i other -j ACCEPT', []],
        ['iptables-nft -N MY-CHAIN && iptables-nft -A MY-CHAIN -j DROP && iptables-nft -F MY-CHAIN', []],
        ['iptables-nft -t mangle -A OUTPUT -j ACCEPT && iptables-nft -t mangle -F', []],
        ['nft add table inet other && nft delete table inet other', []],
        ['nft flush ruleset', ['IPv4', 'IPv6']],
      ]
      for (const [command, expected] of rows) {
        const found = await eventsAfter(() => sh(command))
        if (command.startsWith('nft flush')) assert.deepEqual(found.map((text) => text.slice(0, 4)).sort(), expected)
        else assert.deepEqual([...new Set(found)], expected, command)
      }
      assert.deepEqual(await eventsAfter(pass), [], 'our own restores again')
    } finally {
      events.close()
    }
  })
})

test('missingForNft is right about the kernel, and creates nothing', async () => {
  assert.equal(Object.keys(await missing()).length === 0, isMet('iptables-nft'))
  const { stdout } = spawnSync('nft', ['list', 'tables'], { encoding: 'utf8' })
  assert.doesNotMatch(stdout, /probe/)
})

test('chooseBackEnd chooses a back end that works', needs('legacy-iptables'), async () => {
  const { mode, reason, programs } = await choiceHere()
  assert.equal(mode, isMet('iptables-nft') ? 'nft' : 'legacy', reason)
  for (const command of [':PROBE - [0:0]', '-X PROBE'])
    sh(`printf "%s\\n" "*filter" "${command}" COMMIT | ${programs.IPv4?.restore} --noflush`)
})

test(
  'chooseBackEnd finds kubelet in the back end that has its chain',
  needs('iptables-nft', 'legacy-iptables'),
  async () => {
    const choose = async () => {
      const { mode, reason, randomFully } = await choiceHere()
      assert.ok(randomFully)
      return `${mode}: ${reason}`
    }
    sh('nft flush ruleset')
    sh('iptables-legacy -t mangle -N KUBE-KUBELET-CANARY')
    assert.equal(await choose(), 'legacy: kubelet has its chains in legacy')
    sh('ip6tables-nft -t mangle -N KUBE-IPTABLES-HINT')
    assert.equal(await choose(), 'nft: kubelet has its chains in nft')
    sh('nft flush ruleset; iptables-legacy -t mangle -X KUBE-KUBELET-CANARY; iptables-legacy -A INPUT -j ACCEPT')
    assert.match(await choose(), /^legacy: no chain of kubelet; 0 rules in nft, 1 in legacy$/)
  },
)
