/** The order across sets, rules, virtual servers and addresses, and who waits for whom. */
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import type { IpvsDataplane } from '../../../../src/modes/ipvs/dataplane.ts'
import { FIREWALL_WAIT_MS } from '../../../../src/modes/ipvs/firewall-waits.ts'
import type { Frontend } from '../../../../src/service/frontends.ts'
import type { NodeContext } from '../../../../src/service/node-context.ts'
import { DesiredFrontends } from '../../../../src/sync/desired-frontends.ts'
import type { PassReport } from '../../../../src/sync/pass.ts'
import { parseCidr } from '../../../../src/values/cidr.ts'
import type { IpFamily } from '../../../../src/values/protocol.ts'
import { contributionOf } from '../../../support/contribution.ts'
import { frontendOf } from '../../../support/frontends.ts'
import { service } from '../../../support/objects.ts'
import { AuditShare } from '../../../../src/sync/audit.ts'
import { MemoryWorld, rulesWritten, someTurns, writesRules } from '../../../support/memory-world.ts'

const signal = new AbortController().signal
const POD = ['10.244.1.1']
const VIP = '203.0.113.10'
const RANGE = parseCidr('192.0.2.0/24')
assert.ok(RANGE !== undefined)

const web = frontendOf({}, POD)
const web6 = frontendOf({ address: 'fd00:10:96::1' }, ['fd00:10:244:1::1'])
const other = frontendOf({ address: '10.96.0.2' }, POD)
const external = frontendOf({ roles: ['ExternalIP'], address: '198.51.100.7' }, POD)
const guarded = frontendOf(
  { roles: ['LoadBalancerVip'], address: VIP, firewall: { ranges: [RANGE], allowsNode: false } },
  POD,
)

/** A process and its kernel. */
class Node {
  readonly memory: MemoryWorld
  readonly dataplane: IpvsDataplane

  constructor(memory = new MemoryWorld(['IPv4', 'IPv6'])) {
    this.memory = memory
    this.dataplane = memory.dataplane()
    nodes.push(this)
  }

  want(...frontends: readonly Frontend[]): this {
    for (const one of frontends) this.dataplane.frontend(one.key, one)
    return this
  }

  unwant(...frontends: readonly Frontend[]): this {
    for (const one of frontends) this.dataplane.frontend(one.key, undefined)
    return this
  }

  pass(): Promise<PassReport> {
    return this.dataplane.pass({ signal, mayRemove: true })
  }

  /** Passes as the loop makes them: one more after rules were written. */
  async settle(): Promise<readonly string[]> {
    const from = this.memory.journal.length
    await this.pass()
    for (let rounds = 0; writesRules(this.dataplane); rounds++) {
      assert.ok(rounds < 5)
      await rulesWritten(this.dataplane)
      await this.pass()
    }
    return this.memory.journal.slice(from)
  }

  has(frontend: Frontend): boolean {
    return this.memory.virtualServers.kernel.has(frontend.key)
  }
}

let nodes: Node[] = []
afterEach(async () => {
  for (const node of nodes) await node.dataplane.firewall.close()
  nodes = []
})

const place = (journal: readonly string[], pattern: RegExp): number => {
  const at = journal.findIndex((line) => pattern.test(line))
  assert.ok(at >= 0, `${pattern} in\n${journal.join('\n')}`)
  return at
}
const assertOrder = (journal: readonly string[], ...patterns: readonly RegExp[]): void => {
  const places = patterns.map((pattern) => place(journal, pattern))
  assert.deepEqual(
    places,
    places.toSorted((a, b) => a - b),
    journal.join('\n'),
  )
}
const restores = (journal: readonly string[]): readonly string[] =>
  journal.filter((line) => line.startsWith('iptables-restore'))

describe('IptablesFirewall at a cold start', () => {
  it('logs the sets whose names are cut, of the families that it serves', () => {
    const logged = (...families: readonly IpFamily[]): readonly string[] => {
      const { memory, dataplane } = new Node(new MemoryWorld(families))
      dataplane.firewall.begin()
      return memory.infos.filter((line) => line.startsWith('Ipset name'))
    }
    assert.deepEqual(logged('IPv4'), [])
    assert.deepEqual(logged('IPv4', 'IPv6'), [
      'Ipset name truncated KUBE-6-LOAD-BALANCER-SOURCE-CIDR KUBE-6-LOAD-BALANCER-SOURCE-CID',
      'Ipset name truncated KUBE-6-NODE-PORT-LOCAL-SCTP-HASH KUBE-6-NODE-PORT-LOCAL-SCTP-HAS',
    ])
  })

  it('writes sets, entries, rules, virtual servers and addresses, with one save and one restore for each family', async () => {
    const node = new Node().want(web, web6, external, guarded)
    const journal = await node.settle()
    assertOrder(
      journal,
      /^ipset create KUBE-IPVS-IPS /,
      /^ipset add KUBE-LOAD-BALANCER-SOURCE-CIDR /,
      /^iptables-restore IPv4/,
      /^ipvsadm -A -t 10\.96\.0\.1:80/,
      /^ip address add 10\.96\.0\.1/,
    )
    assertOrder(journal, /^iptables-restore IPv6/, /^ipvsadm -A -t \[fd00:10:96::1\]:80/)
    assert.deepEqual(restores(journal).toSorted(), ['iptables-restore IPv4', 'iptables-restore IPv6'])
    for (const family of ['IPv4', 'IPv6'] as const) assert.equal(node.memory.iptables[family].saves, 1)
  })

  it('makes only the virtual servers of a family wait for its rules', async () => {
    const node = new Node().want(web, web6)
    const { promise, resolve } = Promise.withResolvers<void>()
    node.memory.hanging.IPv4 = promise
    await node.pass()
    await someTurns()
    await node.pass()
    assert.deepEqual([node.has(web), node.has(web6)], [false, true])
    assert.ok(!node.memory.addresses.kernel.has('10.96.0.1'))
    resolve()
    await node.settle()
    assert.ok(node.has(web))
  })

  it('adds virtual servers of a family without its rules when these do not come, but not those with source ranges', async () => {
    const node = new Node().want(web, external, guarded)
    node.memory.hanging.IPv4 = new Promise(() => undefined)
    await node.pass()
    await someTurns()
    node.memory.nowMs += FIREWALL_WAIT_MS - 1
    await node.pass()
    assert.deepEqual([node.has(web), node.dataplane.nextDueMs()], [false, FIREWALL_WAIT_MS])
    node.memory.nowMs += 1
    await node.pass()
    assert.deepEqual([node.has(web), node.has(external), node.has(guarded)], [true, true, false])
    assert.ok(node.memory.addresses.kernel.has('10.96.0.1'))
    assert.deepEqual(node.memory.problems, ['Rules are still missing; adding virtual servers without them IPv4'])
    const late = frontendOf({ address: '10.96.0.3' }, POD)
    await node.want(late).pass()
    assert.deepEqual([node.has(late), node.dataplane.nextDueMs()], [true, undefined])
  })

  it('starts only a save when nothing has to change', async () => {
    const before = new Node().want(web, web6, external, guarded)
    await before.settle()
    const again = new Node(before.memory).want(web, web6, external, guarded)
    assert.deepEqual(await again.settle(), [])
    for (const family of ['IPv4', 'IPv6'] as const) assert.equal(before.memory.iptables[family].saves, 2)
  })

  it('removes what nothing wants: addresses, virtual servers, entries, then the rules about them', async () => {
    const before = new Node().want(web, external)
    await before.settle()
    const journal = await new Node(before.memory).want(web).settle()
    assertOrder(
      journal,
      /^ip address delete 198\.51\.100\.7/,
      /^ipvsadm -D -t 198\.51\.100\.7:80/,
      /^ipset del KUBE-EXTERNAL-IP /,
      /^iptables-restore IPv4/,
    )
  })
})

describe('IptablesFirewall after the first pass', () => {
  it('starts a restore for the first Service of a kind only', async () => {
    const node = new Node().want(web)
    await node.settle()
    assert.deepEqual(restores(await node.want(other).settle()), [])
    const first = await node.want(external).settle()
    assertOrder(first, /^ipset add KUBE-EXTERNAL-IP /, /^iptables-restore IPv4/, /^ipvsadm -A -t 198\.51\.100\.7:80/)
    const moved = frontendOf({ roles: ['ExternalIP'], address: '198.51.100.7' }, ['10.244.1.9'])
    assert.deepEqual(restores(await node.want(moved).settle()), [])
    assert.deepEqual(restores(await node.unwant(other).settle()), [])
    assertOrder(
      await node.unwant(moved).settle(),
      /^ip address delete/,
      /^ipset del KUBE-EXTERNAL-IP/,
      /^iptables-rest/,
    )
  })

  it('makes only new virtual servers wait whose rule is missing', async () => {
    const node = new Node().want(web, other)
    await node.settle()
    const { promise, resolve } = Promise.withResolvers<void>()
    node.memory.hanging.IPv4 = promise
    const third = frontendOf({ address: '10.96.0.3' }, POD)
    const changed = frontendOf({}, ['10.244.1.1', '10.244.1.2'])
    await node.want(external, third, web6, changed).unwant(other).pass()
    await someTurns()
    await node.pass()
    assert.deepEqual(
      [external, third, web6, other].map((one) => node.has(one)),
      [false, true, true, false],
    )
    assert.equal(node.memory.virtualServers.kernel.get(web.key)?.realServers.length, 2)
    resolve()
    await node.settle()
    assert.deepEqual([node.has(external), node.has(web6)], [true, true])
  })

  it('adds a VIP with source ranges only after its rules', async () => {
    const node = new Node().want(web)
    await node.settle()
    const { promise, resolve } = Promise.withResolvers<void>()
    node.memory.hanging.IPv4 = promise
    await node.want(guarded).pass()
    await someTurns()
    assert.ok(!node.has(guarded), 'the rule')
    resolve()
    await node.settle()
    assert.ok(node.has(guarded))

    const second = frontendOf({ ...guarded, address: '203.0.113.11', key: '203.0.113.11:80/tcp' }, POD)
    const entry = 'ipset add KUBE-LOAD-BALANCER-FW 203.0.113.11,tcp:80'
    node.memory.fails = (command) => command === entry
    await node.want(second).settle()
    assert.ok(!node.has(second), 'its entry')
    assert.ok(!node.memory.addresses.kernel.has('203.0.113.11'))
    node.memory.fails = () => false
    node.memory.nowMs += 1000
    const journal = await node.settle()
    assertOrder(journal, /^ipset add KUBE-LOAD-BALANCER-FW 203/, /^ipvsadm -A -t 203/, /^ip address add 203/)
  })

  it('waits for the rule of each kind of virtual server, and for no rule that failed before', async () => {
    const node = new Node().want(web)
    await node.settle()
    node.memory.iptables.IPv4.refuse = (line) => (line.includes('KUBE-EXTERNAL-IP ') ? 'no such thing' : undefined)
    await node.want(external).settle()
    node.memory.nowMs += FIREWALL_WAIT_MS
    await node.settle()
    assert.ok(node.has(external), 'its rule does not come')
    const open = frontendOf({ roles: ['LoadBalancerVip'], address: VIP }, POD)
    node.memory.hanging.IPv4 = new Promise(() => undefined)
    await node.want(open).pass()
    await someTurns()
    assert.ok(!node.has(open), 'its rule may come')
  })

  it('adds waiting virtual servers after a failed restore was retried with success', async () => {
    const node = new Node().want(web)
    await node.settle()
    node.memory.iptables.IPv4.refuse = (line) => (line.includes('KUBE-EXTERNAL-IP ') ? 'no such thing' : undefined)
    await node.want(external, other).settle()
    assert.deepEqual([node.has(external), node.has(other)], [false, true])
    assert.match(
      node.memory.problems.join('\n'),
      /^nat KUBE-SERVICES: no such thing \(-A KUBE-SERVICES .*KUBE-EXTERNAL/m,
    )
    const saves = node.memory.iptables.IPv4.saves
    node.memory.iptables.IPv4.refuse = () => undefined
    node.memory.nowMs += 600
    node.dataplane.firewall.watch(() => undefined)
    await node.settle()
    assert.ok(node.has(external))
    assert.equal(node.memory.iptables.IPv4.saves, saves + 1, 'everything is read again after a failure')
  })

  it('leaves out and reports the rules of a match that the kernel lacks', async () => {
    const node = new Node().want(web)
    node.memory.iptables.IPv4.refuse = (line) => (line.includes('-m ipvs') ? "Couldn't load match `ipvs'" : undefined)
    await node.want(guarded).settle()
    assert.ok(node.has(guarded))
    assert.match(node.memory.problems.join(), /^ipvs: .*left out: -A KUBE-IPVS-OUT-FILTER [^;]*$/)
    assert.match(node.memory.iptables.IPv4.text(), /^:KUBE-IPVS-OUT-FILTER/m)
    assert.deepEqual(restores(await node.unwant(guarded).settle()).length, 1, 'rules of sets that are empty now')
    assert.match(node.memory.problems.join(), /^ipvs: .*left out: -A KUBE-IPVS-OUT-FILTER [^;]*$/)
  })

  it('leaves out the rules of a set of another type until it is replaced', async () => {
    const node = new Node().want(web)
    const foreign = {
      type: 'hash:net',
      family: 'IPv4',
      maxElements: 65_536,
      firstPort: 0,
      lastPort: 0,
      extras: '',
    } as const
    node.memory.sets.kernel.set('KUBE-EXTERNAL-IP', foreign)
    node.memory.fails = (command) => command.includes('ipset swap')
    await node.want(external).settle()
    assert.ok(node.has(web))
    assert.doesNotMatch(node.memory.iptables.IPv4.text(), /KUBE-EXTERNAL-IP /)
    node.memory.fails = () => false
    node.memory.nowMs += 1000
    await node.settle()
    assert.match(node.memory.iptables.IPv4.text(), /^-A KUBE-SERVICES .*KUBE-EXTERNAL-IP /m)
    assert.match(node.memory.iptables.IPv4.text(), /^-A KUBE-IPVS-FILTER .*KUBE-EXTERNAL-IP /m)
  })

  it('repairs rules of one family that another program changed', async () => {
    const node = new Node().want(web)
    await node.settle()
    node.memory.iptables.IPv4.run('nat', '-F KUBE-SERVICES')
    node.dataplane.firewall.watch(() => undefined)
    node.memory.announceRules('IPv4')
    await rulesWritten(node.dataplane)
    assert.match(node.memory.iptables.IPv4.text(), /^-A KUBE-SERVICES .*KUBE-CLUSTER-IP/m)
    assert.equal(node.memory.iptables.IPv6.saves, 1)
  })
})

describe('what another proxy left, and the iptables firewall', () => {
  it('is needed while the rules cannot be written, although nothing is pending then', async () => {
    const node = new Node().want(web)
    assert.equal(node.dataplane.isComplete, false, 'before the first pass')
    node.memory.iptables.IPv6.instead = () => ({ exitCode: 4, errorText: 'xtables lock' })
    for (const nowMs of [0, 600, FIREWALL_WAIT_MS]) {
      node.memory.nowMs = nowMs
      await node.settle()
      assert.deepEqual([writesRules(node.dataplane), node.dataplane.isComplete], [false, false], `${nowMs} ms`)
    }
    node.memory.iptables.IPv6.instead = () => undefined
    node.memory.nowMs += 60_000
    node.dataplane.firewall.watch(() => undefined)
    await node.settle()
    assert.equal(node.dataplane.isComplete, true)
  })

  for (const { title, break: breakRules, complete } of [
    {
      title: 'is not needed for a rule of one family that the kernel refuses for ever',
      break: ({ IPv6 }: MemoryWorld['iptables']) =>
        (IPv6.refuse = (line) => (line.includes('-j REJECT') ? 'No chain/target/match by that name' : undefined)),
      complete: [false, true],
    },
    {
      title: 'is needed while every rule of a family is refused',
      break: ({ IPv6 }: MemoryWorld['iptables']) => (IPv6.refuse = () => 'refused'),
      complete: [false, false],
    },
    {
      title: 'is needed while a whole table of a family is refused and iptables names no rule',
      break: ({ IPv6 }: MemoryWorld['iptables']) => {
        const refusal = { exitCode: 3, errorText: 'Parsing nftables rule failed' }
        IPv6.instead = () => (IPv6.inputs.at(-1)?.includes('*nat') ? refusal : undefined)
      },
      complete: [false, false],
    },
    {
      title: 'is needed while another program holds the lock of both families',
      break: ({ IPv4, IPv6 }: MemoryWorld['iptables']) => {
        for (const one of [IPv4, IPv6]) one.instead = () => ({ exitCode: 4, errorText: 'xtables lock' })
      },
      complete: [false, false],
    },
  ])
    it(title, async () => {
      const node = new Node().want(web, web6)
      breakRules(node.memory.iptables)
      node.dataplane.firewall.watch(() => undefined)
      await node.settle()
      const found = [node.dataplane.isComplete]
      for (let tries = 0; tries < 10; tries++) {
        node.memory.nowMs += 60_000
        for (const family of ['IPv4', 'IPv6'] as const) node.memory.announceRules(family)
        await node.settle()
      }
      assert.deepEqual([...found, node.dataplane.isComplete], complete)
    })

  it('is needed until the addresses of the node are known', async () => {
    const node = new Node().want(web)
    const pass = () => node.dataplane.pass({ signal, mayRemove: false })
    await pass()
    await rulesWritten(node.dataplane)
    await pass()
    assert.ok(node.has(web))
    assert.equal(node.dataplane.isComplete, false)
    await node.settle()
    assert.equal(node.dataplane.isComplete, true)
  })

  it('is needed while a set or all virtual servers fail, and not for one Service that fails for ever', async () => {
    const afterTries = async (fails: (command: string) => boolean): Promise<boolean> => {
      const node = new Node().want(web, other, external)
      node.memory.fails = fails
      await node.settle()
      assert.equal(node.dataplane.isComplete, false)
      node.memory.nowMs += 60_000
      await node.settle()
      return node.dataplane.isComplete
    }
    assert.equal(await afterTries((command) => command.startsWith('ipset create KUBE-CLUSTER-IP ')), false)
    assert.equal(await afterTries((command) => command.startsWith('ipvsadm -A')), false)
    assert.equal(await afterTries((command) => command.startsWith('ipvsadm -A -t 198.51.100.7:80')), true)
  })
})

describe('IptablesFirewall and conflicts', () => {
  const CONTEXT: NodeContext = {
    nodeName: 'node0',
    zone: '',
    nodeIps: { IPv4: '10.0.2.15' },
    localAddresses: new Set(),
    nodePortAddresses: { IPv4: ['10.0.2.15'], IPv6: [] },
  }

  it('leaves nothing of the losing Service in any set, and none of its source ranges', async () => {
    const older = service({ name: 'older', createdAtMs: 1, loadBalancerVips: [VIP] })
    const younger = {
      ...older,
      name: 'younger',
      createdAtMs: 2,
      clusterIps: { IPv4: '10.96.0.9' },
      sourceRanges: ['192.0.2.0/24'],
    }
    const node = new Node()
    const desired = new DesiredFrontends(CONTEXT)
    const flush = async (): Promise<readonly string[]> => {
      const frontend = (key: string, one: Frontend | undefined): void => node.dataplane.frontend(key, one)
      desired.flushAll({ frontend, problems: () => undefined })
      await node.settle()
      return [...node.memory.entries.kernel.keys()].filter((key) => key.includes(VIP)).toSorted()
    }
    const open = [`KUBE-IPVS-IPS ${VIP}`, `KUBE-LOAD-BALANCER ${VIP},tcp:80`]
    desired.apply({ kind: 'services', key: 'demo/younger', value: younger })
    assert.equal((await flush()).length, 4)
    desired.apply({ kind: 'services', key: 'demo/older', value: older })
    assert.deepEqual(await flush(), open)
    assert.equal(contributionOf(younger, [], CONTEXT).frontends.get(`${VIP}:80/tcp`)?.firewall?.ranges.length, 1)
    desired.apply({ kind: 'services', key: 'demo/older', value: undefined })
    assert.equal((await flush()).length, 4)
  })
})

it('IptablesFirewall reads rules that the kernel announces again after an hour', async () => {
  const node = new Node().want(web)
  await node.settle()
  const { memory, dataplane } = node
  const audits = dataplane.firewall.audits({
    share: new AuditShare({ share: 1, now: () => 0, sleep: async () => {} }),
    onDoubt: () => undefined,
  })
  const rules = audits.find(({ name }) => name === 'rules')
  const savesAfterRound = async (): Promise<number> => {
    await rules?.round(signal)
    await node.settle()
    return memory.iptables.IPv4.saves
  }
  assert.equal(await savesAfterRound(), 1)
  memory.nowMs += 3_599_999
  assert.equal(await savesAfterRound(), 1)
  memory.nowMs += 1
  assert.equal(await savesAfterRound(), 2)
  assert.equal(await savesAfterRound(), 2)
})
