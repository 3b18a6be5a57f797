/**
 * `kube-ipvs explain --from` beside rules that nft made in tables of iptables, and beside policy
 * routing: it says what cannot be judged, and never that a packet is dropped because iptables shows
 * a rule without its conditions.
 */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Explanation } from '../../src/cli/explain/explanation.ts'
import type { PacketPath } from '../../src/explain/types.ts'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { needs } from './needs.ts'

const CLIENT = '10.0.2.100'

let bench: Workbench
beforeEach(async () => {
  freshNode()
  bench = new Workbench()
  bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.0.2.16']))
  bench.start()
  await eventually(() => assert.ok(virtualServers().some((line) => line.includes('10.0.2.16'))))
  // The address is bound after that, and until the daemon answers the command knows the kernel alone.
  await eventually(async () => {
    const { stdout } = await bench.command('explain', '10.96.0.1:80', '--output', 'json')
    assert.deepEqual([boundAddresses(), (JSON.parse(stdout) as Explanation).knownFrom], [['10.96.0.1/32'], 'daemon'])
  })
})
afterEach(() => bench.close())

async function pathTo(target: string, from = CLIENT): Promise<PacketPath> {
  const { stdout, stderr } = await bench.command('explain', target, '--output', 'json', '--from', from)
  const [first] = (JSON.parse(stdout) as Explanation).paths
  assert.ok(first !== undefined && first.path !== null, stderr)
  return first.path
}

/** The kinds of ends, each with the rules that it depends on. */
const endsOf = ({ outcomes }: PacketPath): string[] =>
  outcomes.map(({ end, conditions }) => [end.kind, ...conditions.map(({ rule }) => rule)].join(' ')).sort()

describe('explain --from beside a rule of nft', needs('iptables-nft', 'nft'), () => {
  const MISPRINTED = [
    'ip saddr { 192.0.2.1, 192.0.2.9 } drop',
    'tcp dport { 22, 25 } drop',
    'ip saddr 192.0.2.1-192.0.2.9 drop',
  ]
  for (const rule of MISPRINTED)
    it(`that iptables shows without its conditions says that it cannot be judged: ${rule}`, async () => {
      sh(`nft insert rule ip filter INPUT '${rule}'`)
      assert.match(sh('iptables-save -t filter'), /^-A INPUT .*-j DROP$/m)
      const path = await pathTo('10.96.0.1:80')
      const handle = /handle (\d+)/.exec(sh('nft -a list chain ip filter INPUT | grep drop'))?.[1]
      const text = `-A INPUT -m nft --handle ${handle} -j DROP`
      assert.deepEqual(endsOf(path), [`dropped ${text}`, `endpoint ${text}`])
      const { stdout } = await bench.command('explain', '10.96.0.1:80', '--from', CLIENT)
      assert.match(stdout.replace(/\s+/g, ' '), /it cannot be known whether the rule matches \(it was made with nft/)
    })

  it('that keeps iptables-save from printing the table judges all other rules', async () => {
    sh("nft insert rule ip filter INPUT 'ct state established accept'")
    assert.match(sh('iptables-save 2>&1'), /incompatible/)
    assert.match(endsOf(await pathTo('10.96.0.1:80')).join(), /^endpoint/)
    // A port that no Service has: the rule of KUBE-IPVS-FILTER refuses it, and was printed.
    const refused = await pathTo('10.96.0.1:81')
    assert.match(endsOf(refused).join('\n'), /^refused -A INPUT -m nft --handle \d+ -j ACCEPT$/m)
    sh("nft add rule ip nat PREROUTING 'ip daddr 198.51.100.1 dnat to 10.0.2.16'")
    assert.ok(endsOf(await pathTo('10.96.0.1:80')).some((end) => end.startsWith('endpoint')))
  })

  it('in a second base chain names the chain as not considered', async () => {
    sh("nft add chain ip nat prerouting '{ type nat hook prerouting priority -101; }'")
    const { limits } = await pathTo('10.96.0.1:80')
    assert.ok(
      limits.some((text) => /chains of nftables also see packets, .*: ip nat prerouting$/.test(text)),
      limits.join('\n'),
    )
  })
})

describe('explain --from beside policy routing', () => {
  it('says that rules by the client are followed in part, and is silent without them', async () => {
    const silent = await pathTo('10.96.0.1:80')
    assert.ok(!silent.limits.some((text) => text.includes('policy routing')))
    sh('ip rule add from 10.0.2.100 lookup 100 priority 1000; ip rule add fwmark 7 lookup 100')
    try {
      const { limits } = await pathTo('10.96.0.1:80')
      const [limit = '', more] = limits.filter((text) => text.includes('policy routing'))
      assert.match(limit, /"1000: from 10\.0\.2\.100\/32 lookup 100"$/)
      assert.equal(more, undefined)
    } finally {
      sh('ip rule delete from 10.0.2.100 lookup 100; ip rule delete fwmark 7 lookup 100')
    }
  })
})
