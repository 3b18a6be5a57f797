/** What is written when, who waits for whom, and what a loss and another process mean. */
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { FIREWALL_WAIT_MS } from '../../../../src/modes/ipvs/firewall-waits.ts'
import { LONG_WAIT_MS } from '../../../../src/modes/ipvs/nftables-firewall/hand-over.ts'
import { NftablesFirewall, type TableListener } from '../../../../src/modes/ipvs/nftables-firewall/firewall.ts'
import { type NftItem, nftKey } from '../../../../src/nftables/types.ts'
import type { AddressFrontend } from '../../../../src/service/frontends.ts'
import type { PassReport } from '../../../../src/sync/pass.ts'
import { Reconciler } from '../../../../src/sync/reconciler.ts'
import { parseCidr } from '../../../../src/values/cidr.ts'
import { silentLog } from '../../../../src/values/log.ts'
import type { IpFamily } from '../../../../src/values/protocol.ts'
import { eventually } from '../../../support/deadline.ts'
import { frontendOf } from '../../../support/frontends.ts'
import { service } from '../../../support/objects.ts'
import { MemoryNft } from './memory-nft.ts'

const signal = new AbortController().signal
const range = (text: string) => {
  const cidr = parseCidr(text)
  assert.ok(cidr !== undefined)
  return cidr
}
const guardedBy = (text: string, address = '203.0.113.10', allowsNode = false): AddressFrontend =>
  frontendOf({ roles: ['LoadBalancerVip'], address, firewall: { ranges: [range(text)], allowsNode } }, ['10.244.1.1'])
const web = frontendOf({}, ['10.244.1.1'])
const other = frontendOf({ address: '10.96.0.2' }, ['10.244.1.1'])
const web6 = frontendOf({ address: 'fd00:10:96::1' }, ['fd00:10:244:1::1'])
const guarded = guardedBy('192.0.2.0/24')
const RANGES = 'ip chain ranges-demo/web'
const ELEMENT = 'ip element source-ranges 203.0.113.10 . tcp . 80'

/** A process on a kernel. */
class Process {
  readonly memory: MemoryNft
  readonly firewall: NftablesFirewall
  readonly #reconciler: Reconciler
  nowMs = 0
  mayAddCalls = 0
  resumed = 0
  readonly writers: number[] = []
  readonly problems: string[] = []
  /** Codes and messages of problems. */
  readonly reasons: string[] = []
  readonly warnings: string[] = []
  readonly messages: string[] = []
  listener: TableListener | undefined

  constructor(memory = new MemoryNft(), { mayOwn = false, families = ['IPv4', 'IPv6'] as readonly IpFamily[] } = {}) {
    this.memory = memory
    this.firewall = new NftablesFirewall({
      kernel: {
        families,
        mayOwn,
        table: memory,
        watch: (listener) => {
          this.listener = listener
          return { close: () => undefined }
        },
        audit: async () => undefined,
        connections: () => [],
        close: () => undefined,
      },
      settings: {
        detectLocalMode: 'ClusterCIDR',
        clusterCIDR: '10.244.0.0/16',
        detectLocal: { bridgeInterface: '', interfaceNamePrefix: '' },
        iptables: { masqueradeAll: false, masqueradeBit: 14 },
      },
      nodeName: 'node0',
      problems: {
        report: (_, subject, found) => {
          this.problems.push(...(found.length === 0 ? [`${subject} resolved`] : found.map((one) => one.subject)))
          this.reasons.push(...found.map(({ code, message }) => `${code} ${message}`))
        },
      },
      log: {
        ...silentLog,
        info: (message) => void this.messages.push(message),
        warn: (message) => void this.warnings.push(message),
      },
      now: () => this.nowMs,
      listener: { partPassed: () => undefined, postponedReady: () => void this.resumed++ },
    })
    this.#reconciler = new Reconciler(this.firewall.stages(() => void this.mayAddCalls++))
    this.firewall.watch((portId) => void this.writers.push(portId))
    running.push(this)
  }

  want(...frontends: readonly AddressFrontend[]): this {
    for (const one of frontends) this.firewall.frontend(one.key, one)
    return this
  }

  unwant(...frontends: readonly AddressFrontend[]): this {
    for (const one of frontends) this.firewall.frontend(one.key, undefined)
    return this
  }

  async pass(servesAll = true): Promise<PassReport> {
    const pass = () => this.#reconciler.pass({ signal, now: () => this.nowMs, mayRemove: true })
    const report = await pass()
    if (this.firewall.passed(servesAll)) await pass()
    return report
  }

  /** Passes until nothing is due, and what they wrote. */
  async settle(): Promise<readonly string[]> {
    const from = this.memory.applied.length
    for (let passes = 0; passes === 0 || this.#reconciler.nextDueMs() === 0; passes++) {
      assert.ok(passes < 6, this.memory.applied.slice(from).join('\n'))
      await this.pass()
    }
    return this.memory.applied.slice(from)
  }

  item(key: string): NftItem | undefined {
    return this.memory.kernel.get(key)
  }

  /** What health names as wrong. */
  wrong(): readonly string[] {
    const states = this.firewall.sources.tables.flatMap((table) => table.health())
    return states.flatMap(({ what, wrong }) => (wrong ? [what] : []))
  }

  rulesOf(chain: string): number {
    const item = this.item(`ip chain ${chain}`)
    return item?.kind === 'chain' ? item.rules.length : -1
  }
}

const running: Process[] = []
afterEach(async () => {
  for (const one of running.splice(0)) await one.firewall.close()
})

describe('NftablesFirewall at a cold start', () => {
  it('writes table, sets, chains and elements in one pass, before it permits virtual servers', async () => {
    const node = new Process().want(web, web6, guarded)
    assert.equal(node.firewall.mayAdd(web.key, 'IPv4'), false)
    await node.pass()
    for (const key of ['ip', 'ip6', 'ip element cluster-ips 10.96.0.1 . tcp . 80', RANGES, ELEMENT])
      assert.ok(node.item(key) !== undefined, key)
    assert.ok(node.mayAddCalls > 0)
    for (const one of [web, web6, guarded]) assert.ok(node.firewall.mayAdd(one.key, one.servicePort.family))
  })

  it('refuses unknown ports once the sets are filled, and keeps destinations once virtual servers serve everything', async () => {
    const node = new Process().want(web)
    await node.pass(false)
    assert.deepEqual([node.rulesOf('filter-input'), node.rulesOf('keep-destination')], [2, 0])
    const commands = node.memory.applied
    assert.ok(
      commands.indexOf('replace ip chain filter-input') >
        commands.indexOf('add ip element cluster-ips 10.96.0.1 . tcp . 80'),
    )
    await node.pass(true)
    assert.equal(node.rulesOf('keep-destination'), 1)
  })

  it('after a restart changes nothing that is right, and removes what nothing wants', async () => {
    const memory = new MemoryNft()
    await new Process(memory).want(web, other, guarded).settle()
    const next = new Process(memory).want(web)
    const written = await next.settle()
    assert.ok(written.length > 0 && written.every((command) => command.startsWith('delete ')), written.join('\n'))
    assert.ok(written.indexOf(`delete ${ELEMENT}`) < written.indexOf(`delete ${RANGES}`))
    assert.ok(next.item('ip element cluster-ips 10.96.0.2 . tcp . 80') === undefined)
  })
})

describe('NftablesFirewall and new virtual servers', () => {
  it('lets them wait for a table that cannot be written, but not for ever', async () => {
    const node = new Process().want(web, guarded)
    node.memory.fails = () => true
    await node.pass()
    assert.equal(node.firewall.mayAdd(web.key, 'IPv4'), false)
    assert.equal(node.firewall.nextDueMs(), FIREWALL_WAIT_MS)
    node.nowMs = FIREWALL_WAIT_MS
    const calls = node.mayAddCalls
    await node.pass()
    assert.equal(node.mayAddCalls, calls + 1)
    assert.deepEqual([node.firewall.mayAdd(web.key, 'IPv4'), node.firewall.mayAdd(guarded.key, 'IPv4')], [true, false])
    assert.deepEqual(node.warnings, ['Rules are still missing; adding virtual servers without them'])
    assert.equal(node.firewall.nextDueMs(), undefined)
  })

  for (const refused of [RANGES, ELEMENT])
    it(`never adds one whose source ranges are refused (${refused}), reports it, and serves all others`, async () => {
      const node = new Process().want(guarded, web)
      node.memory.fails = ({ item }) => nftKey(item) === refused
      await node.pass()
      node.nowMs = 10 * FIREWALL_WAIT_MS
      await node.pass()
      assert.equal(node.firewall.mayAdd(guarded.key, 'IPv4'), false)
      assert.equal(node.firewall.mayAdd(web.key, 'IPv4'), true)
      assert.ok(node.item('ip element cluster-ips 10.96.0.1 . tcp . 80') !== undefined)
      assert.ok(node.problems.includes('service demo/web'), node.problems.join())
      const calls = node.mayAddCalls
      node.memory.fails = () => false
      for (let round = 0; round < 3; round++) {
        node.nowMs += 60_000
        await node.pass()
      }
      assert.ok(node.mayAddCalls > calls)
      assert.equal(node.firewall.mayAdd(guarded.key, 'IPv4'), true)
      assert.equal(node.problems.at(-1), 'demo/web resolved')
    })

  it('adds none with source ranges while another program empties the chain that applies them', async () => {
    const node = new Process().want(web)
    await node.settle()
    for (let round = 0; ; round++) {
      const chain = node.item('ip chain filter-input')
      assert.ok(chain?.kind === 'chain' && round < 9)
      node.memory.kernel.set('ip chain filter-input', { ...chain, rules: [] })
      const resumed = node.resumed
      node.listener?.onChanged('IPv4', false, 77)
      await eventually(() => assert.ok(node.resumed > resumed))
      await node.want(guarded).pass()
      // The first repairs are made at once, the next one waits.
      if (node.rulesOf('filter-input') === 0) break
      assert.equal(node.firewall.mayAdd(guarded.key, 'IPv4'), true)
      node.unwant(guarded)
      node.nowMs += 1000
    }
    assert.equal(node.firewall.mayAdd(guarded.key, 'IPv4'), false)
    const calls = node.mayAddCalls
    node.nowMs += 60_000
    await node.pass()
    assert.ok(node.mayAddCalls > calls)
    assert.equal(node.firewall.mayAdd(guarded.key, 'IPv4'), true)
  })
})

describe('what another proxy left, and the nftables firewall', () => {
  it('is needed while the layout of a family cannot be written, and not for one Service that fails for ever', async () => {
    const node = new Process().want(web, other, guarded)
    assert.equal(node.firewall.isComplete, false)
    const failing = new Set([RANGES, 'ip6 chain nat-postrouting'])
    node.memory.fails = ({ item }) => failing.has(nftKey(item))
    await node.settle()
    assert.equal(node.firewall.isComplete, false)
    failing.delete('ip6 chain nat-postrouting')
    node.nowMs += 60_000
    await node.settle()
    assert.equal(node.firewall.mayAdd(guarded.key, 'IPv4'), false)
    assert.equal(node.firewall.isComplete, true)
  })

  it('is needed while a table belongs to another process', async () => {
    const memory = new MemoryNft()
    await new Process(memory, { mayOwn: true }).want(web).settle()
    memory.isTaken = true
    const node = new Process(memory, { mayOwn: true }).want(web)
    await node.settle()
    assert.equal(node.firewall.isComplete, false)
    memory.isTaken = false
    await eventually(() => assert.ok(node.resumed > 0))
    await node.settle()
    assert.equal(node.firewall.isComplete, true)
  })
})

describe('NftablesFirewall and an address that is served before it gets source ranges', () => {
  const open = frontendOf({ roles: ['LoadBalancerVip'], address: '203.0.113.10' }, ['10.244.1.1'])
  const open81 = frontendOf({ roles: ['LoadBalancerVip'], address: '203.0.113.10', port: 81 }, ['10.244.1.1'])
  const guarded81 = frontendOf(
    {
      roles: ['LoadBalancerVip'],
      address: '203.0.113.10',
      port: 81,
      firewall: { ranges: [range('192.0.2.0/24')], allowsNode: false },
    },
    ['10.244.1.1'],
  )
  const actionAt = (node: Process, port: number): string => {
    const element = node.item(`ip element source-ranges 203.0.113.10 . tcp . ${port}`)
    return element?.kind === 'element' ? (element.action?.kind ?? '') : 'none'
  }

  it('drops its packets while the kernel refuses the chain, and never before or after', async () => {
    const node = new Process().want(open, open81)
    await node.settle()
    node.memory.fails = ({ item }) => nftKey(item) === RANGES
    await node.want(guarded).settle()
    // The chain is not tried again yet.
    await node.want(guarded81).settle()
    assert.deepEqual([actionAt(node, 80), actionAt(node, 81)], ['drop', 'drop'])
    assert.match(node.reasons.at(-1) ?? '', /so the load-balancer addresses take no packets/)
    node.memory.fails = () => false
    node.nowMs += 60_000
    await node.settle()
    assert.deepEqual([actionAt(node, 80), actionAt(node, 81)], ['jump', 'jump'])
    assert.equal(node.problems.at(-1), 'demo/web resolved')
    assert.ok(!node.memory.applied.includes(`delete ${ELEMENT}`))
  })

  it('keeps the earlier ranges while the kernel refuses others, and says so', async () => {
    const node = new Process().want(guarded)
    await node.settle()
    node.memory.fails = ({ item }) => nftKey(item) === RANGES
    await node.want(guardedBy('198.51.100.0/24')).settle()
    assert.equal(actionAt(node, 80), 'jump')
    assert.match(node.reasons.at(-1) ?? '', /so the load-balancer addresses keep the ranges that they had/)
  })
})

describe('NftablesFirewall and many Services', () => {
  it('adds no element before the chain that it leads to, however many slices it takes', async () => {
    const address = (index: number): string => `203.0.${index >> 8}.${index & 255}`
    const firewall = { ranges: [range('192.0.2.0/24')], allowsNode: true }
    const node = new Process()
    for (let index = 0; index < 600; index++)
      node.want(
        frontendOf({
          roles: ['LoadBalancerVip'],
          address: address(index),
          firewall,
          service: service({ name: `web${index % 300}` }),
        }),
      )
    const { failures } = await node.pass()
    assert.deepEqual(failures, [])
    for (let index = 0; index < 600; index++)
      assert.ok(node.item(`ip element source-ranges ${address(index)} . tcp . 80`) !== undefined, address(index))
    node.memory.flush()
    node.listener?.onChanged('IPv4', true, 77)
    await eventually(() => assert.ok(node.resumed > 0))
    assert.deepEqual((await node.pass()).failures, [])
    assert.ok(node.item(`ip element source-ranges ${address(599)} . tcp . 80`) !== undefined)
  })
})

describe('NftablesFirewall and changes', () => {
  it('changes one chain for all addresses and ports when ranges change', async () => {
    const at = (text: string, port: number): AddressFrontend => {
      const firewall = { ranges: [range(text)], allowsNode: true }
      return frontendOf({ roles: ['LoadBalancerVip'], address: '203.0.113.10', port, firewall }, ['10.244.1.1'])
    }
    const ports = Array.from({ length: 20 }, (_, index) => 8000 + index)
    const node = new Process().want(...ports.map((port) => at('192.0.2.0/24', port)))
    await node.settle()
    node.want(...ports.map((port) => at('198.51.100.0/24', port)))
    assert.deepEqual(await node.settle(), [`replace ${RANGES}`])
    const chain = node.item(RANGES)
    assert.deepEqual(chain?.kind === 'chain' && chain.rules[0]?.statements[0], {
      kind: 'networks',
      field: 'saddr',
      cidrs: ['198.51.100.0/24', '203.0.113.10'],
    })
  })

  it('removes the element of a Service before its chain', async () => {
    const node = new Process().want(guarded, web)
    await node.settle()
    const removed = await node.unwant(guarded).settle()
    assert.ok(removed.indexOf(`delete ${ELEMENT}`) < removed.indexOf(`delete ${RANGES}`), removed.join('\n'))
    assert.ok(removed.every((command) => command.includes('203.0.113.10') || command.includes('ranges-demo/web')))
  })

  it('leads an address that another Service has won to the chain of that one', async () => {
    const node = new Process().want(guarded)
    await node.settle()
    const theirs = frontendOf(
      {
        roles: ['LoadBalancerVip'],
        address: '203.0.113.10',
        firewall: { ranges: [range('198.51.100.0/24')], allowsNode: false },
        service: service({ name: 'theirs' }),
      },
      ['10.244.1.1'],
    )
    await node.want(theirs).settle()
    const element = node.item(ELEMENT)
    assert.deepEqual(element?.kind === 'element' && element.action, { kind: 'jump', chain: 'ranges-demo/theirs' })
    assert.equal(node.item(RANGES), undefined)
  })

  it('tells what a frontend needs, and how many elements each set has', async () => {
    const node = new Process().want(web)
    await node.settle()
    assert.deepEqual(
      Array.from(node.firewall.wanted(web.key), ({ key }) => key),
      ['ip element cluster-ips 10.96.0.1 . tcp . 80', 'ip element virtual-ips 10.96.0.1'],
    )
    assert.deepEqual(
      node.firewall.sources.sizes().map(({ name, entries }) => `${name} ${entries}`),
      ['ip cluster-ips 1', 'ip virtual-ips 1'],
    )
  })
})

describe('NftablesFirewall and other programs', () => {
  it('rebuilds a table that was removed before a pass, and counts the first three losses', async () => {
    const node = new Process().want(web, guarded)
    await node.settle()
    const repairs: number[] = []
    for (let loss = 0; loss < 8; loss++) {
      node.nowMs += 10
      node.memory.flush()
      const resumed = node.resumed
      const from = node.memory.applied.length
      node.listener?.onChanged('IPv4', true, 77)
      node.listener?.onChanged('IPv6', true, 77)
      await eventually(() => assert.ok(node.resumed > resumed))
      assert.ok(node.item('ip element cluster-ips 10.96.0.1 . tcp . 80') !== undefined, `loss ${loss}`)
      const report = await node.pass()
      repairs.push(Math.max(0, ...report.repairs.map(({ times }) => times)))
      assert.ok(node.firewall.mayAdd(guarded.key, 'IPv4'))
      assert.equal(node.rulesOf('filter-input'), 2)
      await node.settle()
      const commands = node.memory.applied.slice(from)
      assert.equal(new Set(commands).size, commands.length, `loss ${loss}`)
      assert.ok(
        commands.every((command) => command.startsWith('add ')),
        `loss ${loss}`,
      )
      assert.equal(commands.filter((command) => command === 'add ip').length, 1)
    }
    assert.deepEqual(repairs, [1, 2, 3, 0, 0, 0, 0, 0])
    assert.deepEqual(new Set(node.writers), new Set([77]))
  })

  it('rebuilds a table of 1,000 Services before a pass, and leaves one of 3,000 to a pass', async () => {
    for (const [count, isRebuilt] of [
      [1000, true],
      [3000, false],
    ] as const) {
      const all = Array.from({ length: count }, (_, index) =>
        frontendOf({ address: `10.97.${index >> 8}.${index & 255}` }, ['10.244.1.1']),
      )
      const node = new Process().want(...all)
      await node.settle()
      node.memory.flush()
      const { resumed } = node
      node.listener?.onChanged('IPv4', true, 77)
      await eventually(() => assert.ok(node.resumed > resumed))
      const last = nftKey({ kind: 'element', family: 'IPv4', set: 'virtual-ips', value: all.at(-1)?.address ?? '' })
      assert.equal(node.item(last) !== undefined, isRebuilt, `${count} Services`)
      await node.settle()
      assert.ok(node.item(last) !== undefined)
    }
  })

  it('repairs an element that was removed', async () => {
    const node = new Process().want(web)
    await node.settle()
    const key = 'ip element cluster-ips 10.96.0.1 . tcp . 80'
    node.memory.kernel.delete(key)
    node.listener?.onChanged('IPv4', false, 77)
    await eventually(() => assert.ok(node.resumed > 0))
    const report = await node.pass()
    assert.deepEqual(
      report.repairs.map((repair) => repair.key),
      [key],
    )
  })

  it('waits while the tables belong to another process of ours, and takes them when that one has ended', async () => {
    const memory = new MemoryNft()
    await new Process(memory, { mayOwn: true }).want(web).settle()
    assert.deepEqual(memory.kernel.get('ip'), { kind: 'table', family: 'IPv4', isOwned: true })
    memory.isTaken = true
    const next = new Process(memory, { mayOwn: true }).want(web, other)
    const report = await next.pass()
    assert.deepEqual([report.failures, report.applied], [[], 0])
    assert.equal(next.firewall.mayAdd(other.key, 'IPv4'), false)
    // The table of IPv6 was even removed.
    memory.isTaken = false
    memory.kernel.set('ip', { kind: 'table', family: 'IPv4', isOwned: false })
    for (const key of Array.from(memory.kernel.keys())) if (key.startsWith('ip6')) memory.kernel.delete(key)
    const resumed = next.resumed
    await eventually(() => assert.ok(next.resumed > resumed))
    await next.settle()
    assert.deepEqual(memory.kernel.get('ip'), { kind: 'table', family: 'IPv4', isOwned: true })
    assert.deepEqual(memory.kernel.get('ip6'), { kind: 'table', family: 'IPv6', isOwned: true })
    assert.ok(next.item('ip element cluster-ips 10.96.0.2 . tcp . 80') !== undefined)
    assert.equal(next.firewall.mayAdd(other.key, 'IPv4'), true)
  })

  it('takes over tables of another release, with other sets and chains, without a failure', async () => {
    const memory = new MemoryNft()
    await new Process(memory, { mayOwn: true }).want(web).settle()
    for (const key of Array.from(memory.kernel.keys())) {
      const item = memory.kernel.get(key)
      if (item?.kind === 'table') memory.kernel.set(key, { ...item, isOwned: false })
      if (item?.kind === 'chain') memory.kernel.set(key, { ...item, rules: [] })
      if (/ (?:set|element) hairpins/.test(key)) memory.kernel.delete(key)
    }
    const next = new Process(memory, { mayOwn: true }).want(web)
    assert.deepEqual((await next.pass()).failures, [])
    assert.equal(next.rulesOf('nat-postrouting'), 4)
    assert.equal(next.firewall.mayAdd(web.key, 'IPv4'), true)
  })

  it('is unhealthy while they belong to another process, and reports who it is when that lasts', async () => {
    const memory = new MemoryNft()
    await new Process(memory, { mayOwn: true }).want(web).settle()
    memory.isTaken = true
    const next = new Process(memory, { mayOwn: true }).want(web)
    await next.pass()
    assert.deepEqual(next.wrong(), ['table IPv4', 'table IPv6'])
    assert.deepEqual(next.messages.splice(0), [
      'Another process owns the rules; waiting until it ends',
      'Another process owns the rules; waiting until it ends',
    ])
    next.nowMs = LONG_WAIT_MS - 1
    await next.pass()
    assert.deepEqual(next.problems, [])
    // No pass is due, so the look at the table reports it.
    next.nowMs = LONG_WAIT_MS
    await eventually(() => assert.deepEqual(next.problems, ['table ip', 'table ip6']))
    assert.match(next.reasons[0] ?? '', /^nftables-owned .*port id 77/)
    await next.pass()
    assert.equal(next.problems.length, 2)
    memory.isTaken = false
    await eventually(() => assert.ok(next.resumed > 0))
    await next.settle()
    assert.deepEqual(next.wrong(), [])
    assert.deepEqual(next.problems.slice(2), ['table ip resolved', 'table ip6 resolved'])
    assert.deepEqual(next.messages, ['The rules can be written again', 'The rules can be written again'])
  })
})
