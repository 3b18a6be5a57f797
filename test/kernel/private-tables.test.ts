/**
 * Private tables of nf_tables on a real kernel, with Debian's nft as the judge: it prints what we
 * wrote, takes our text and our commands, and changes things behind our back.
 */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { requestOf } from '../../src/netlink/batch.ts'
import { NLM_F_CREATE } from '../../src/netlink/constants.ts'
import { encodeBatchBegin, encodeBatchEnd, NFNL_SUBSYS } from '../../src/netlink/nfnetlink-codec.ts'
import { operationText, tableText } from '../../src/nftables/item-text.ts'
import { NFT_TABLE } from '../../src/nftables/kind.ts'
import { NFT_FAMILY, type NftItem, nftKey, type NftOperation, PRIVATE_TABLE } from '../../src/nftables/types.ts'
import { beginNft } from '../../src/nftables/wire.ts'
import type { IpFamily } from '../../src/values/protocol.ts'
import { someChain, someElement, someSet } from '../nftables/arbitraries.ts'
import { sh } from '../support/programs.ts'
import { needs } from './needs.ts'
import { freshKernel } from './private-table-kernel.ts'
import { all, codeOf, differences, element, privateTables } from './private-table-items.ts'

const FAMILIES = ['IPv4', 'IPv6'] as const
const { signal } = new AbortController()
const RETURN = { kind: 'verdict', action: { kind: 'return' } } as const

const kernel = freshKernel()

const nftText = (family: IpFamily): string => sh(`nft list table ${NFT_FAMILY[family]} kube-ipvs`)

/** What `nft list table` prints, without the order of elements and the width of lines. */
function normal(text: string): string {
  const sorted = text.replaceAll(/elements = \{([^}]*)\}/g, (_, list: string) => {
    return `elements = { ${list
      .split(',')
      .map((one) => one.trim())
      .sort()
      .join(', ')} }`
  })
  return sorted.replaceAll(/\s+/g, ' ').trim()
}

/** The operations of a pass from what the kernel has to the wanted items. */
function plan(wanted: readonly NftItem[], live: ReadonlyMap<string, NftItem>): NftOperation[] {
  const items = new Map(wanted.map((item) => [nftKey(item), item]))
  return [...new Set([...items.keys(), ...live.keys()])].flatMap((key) =>
    NFT_TABLE.diff(key, items.get(key), live.get(key)),
  )
}

describe('a private table', needs('nft'), () => {
  for (const family of FAMILIES) {
    const wanted = privateTables(family)

    it(`is printed by nft as by us, and read as it was written: ${family}`, async () => {
      await kernel.apply(...all('add', wanted))
      const live = await kernel.tables.list('all', signal)
      assert.deepEqual(differences(wanted, live), [])
      assert.equal(normal(tableText(live.values(), family)), normal(nftText(family)))
      assert.deepEqual(differences(wanted, await kernel.tables.list([...live.keys()], signal)), [])
      const visited = new Map<string, NftItem>()
      await kernel.tables.visit((item) => void visited.set(nftKey(item), item), { signal })
      assert.deepEqual(visited, live)
    })

    it(`is made by nft from our text: ${family}`, async () => {
      const { status, stderr } = spawnSync('nft', ['-f', '-'], { input: tableText(wanted, family), encoding: 'utf8' })
      assert.equal(stderr, '')
      assert.equal(status, 0)
      assert.deepEqual(differences(wanted, await kernel.tables.list('all', signal)), [])
    })

    it(`is made, changed and deleted by the commands of our operations: ${family}`, async () => {
      const kinds = ['table', 'set', 'chain', 'element']
      const sorted = wanted.toSorted((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind))
      // Rules refer to chains and sets, so those are made first, as operations in one transaction are.
      for (const item of sorted)
        sh(operationText({ kind: 'add', item: item.kind === 'chain' ? { ...item, rules: [] } : item }))
      const withContent = sorted.filter(({ kind }) => kind === 'chain' || kind === 'element')
      for (const item of withContent) sh(operationText({ kind: 'replace', item }))
      assert.deepEqual(differences(wanted, await kernel.tables.list('all', signal)), [])
      for (const item of sorted)
        if (item.kind === 'chain') sh(operationText({ kind: 'replace', item: { ...item, rules: [] } }))
      for (const item of sorted.toReversed()) sh(operationText({ kind: 'delete', item }))
      assert.equal((await kernel.tables.list('all', signal)).size, 0)
    })
  }

  it('is read as it was written, whatever is in it', async () => {
    const some = fc
      .constantFrom<IpFamily>('IPv4', 'IPv6')
      .chain((family) =>
        fc
          .uniqueArray(someSet(family), { selector: ({ name }) => name, minLength: 1, maxLength: 4 })
          .chain((sets) =>
            fc.tuple(
              fc.constant(sets),
              fc.uniqueArray(someChain(family, sets), { selector: ({ name }) => name, maxLength: 4 }),
              fc.tuple(
                ...sets.map((set) =>
                  fc.uniqueArray(someElement(set), { selector: ({ value }) => value, maxLength: 9 }),
                ),
              ),
            ),
          ),
      )
    await fc.assert(
      fc.asyncProperty(some, async ([sets, chains, elements]) => {
        const family = sets[0]?.family ?? 'IPv4'
        const wanted = [{ kind: 'table', family, isOwned: false } as const, ...sets, ...chains, ...elements.flat()]
        sh('nft flush ruleset')
        await kernel.apply(...all('add', wanted))
        const live = await kernel.tables.list('all', signal)
        assert.deepEqual(plan(wanted, live), [])
        assert.deepEqual(differences(wanted, live), [])
        // nft writes `tcp dport` for `th dport` where a rule has named the protocol before.
        const text = normal(tableText(live.values(), family))
        // nft prints some networks that touch as one range.
        const printed = normal(nftText(family))
        const isRange = /saddr \{[^}]*-[^}]*\}/.test(printed)
        if (!isRange && !/l4proto (?:tcp|udp|sctp)/.test(text)) assert.equal(text, printed)
        await kernel.apply(...all('delete', wanted))
        assert.equal((await kernel.tables.list('all', signal)).size, 0)
      }),
      { numRuns: 30 },
    )
  })

  it('has nothing that this program did not write, after a pass', async () => {
    const wanted = privateTables('IPv4')
    await kernel.apply(...all('add', wanted))
    sh(`nft -f - <<'END'
      add set ip kube-ipvs theirs { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 }; }
      add set ip kube-ipvs theirs2 { type mark; elements = { 1, 2 }; }
      add chain ip kube-ipvs theirs { type filter hook input priority 7; policy drop; }
      add chain ip kube-ipvs called
      add rule ip kube-ipvs theirs ip saddr @theirs counter jump called
      insert rule ip kube-ipvs services counter accept
      add element ip kube-ipvs ports { 192.0.2.1 . icmp . 7, 192.0.2.1 . 99 . 7 }
      delete element ip kube-ipvs ports { 10.96.0.1 . tcp . 443 }
      add element ip kube-ipvs ports { * }
      add element ip kube-ipvs marks { * : goto called }
      add chain ip kube-ipvs filter-input { policy drop; }
END
      nft 'add table ip kube-ipvs { flags dormant; }'`)
    // Sets without a name that are no networks.
    for (const match of [
      'tcp dport { 22, 80 } accept',
      'tcp dport vmap { 22 : accept }',
      'meta l4proto { tcp, udp } accept',
      'ip saddr . tcp dport { 10.0.0.1 . 22 } accept',
    ])
      sh(`nft 'add rule ip kube-ipvs theirs ${match}'`)
    const before = await kernel.tables.list('all', signal)
    const ops = plan(wanted, before)
    assert.deepEqual(ops.map(({ kind, item }) => `${kind} ${nftKey(item)}`).sort(), [
      'add ip element ports 10.96.0.1 . tcp . 443',
      'delete ip chain called',
      'delete ip chain theirs',
      'delete ip element marks *',
      'delete ip element ports *',
      'delete ip element ports 192.0.2.1 . 99 . 7',
      'delete ip element ports 192.0.2.1 . icmp . 7',
      'delete ip set theirs',
      'delete ip set theirs2',
      'replace ip',
      'replace ip chain filter-input',
      'replace ip chain services',
    ])
    await kernel.apply(...ops)
    assert.deepEqual(differences(wanted, await kernel.tables.list('all', signal)), [])
    assert.doesNotMatch(sh('nft list table ip kube-ipvs'), /dormant|policy drop|counter/)
  })

  it('is read and repaired with names and padding that nft cannot write', async () => {
    // So many that the kernel's count is compared with what it lists.
    const many = Array.from({ length: 200 }, (_, index) => element('ports', `192.0.2.9 . tcp . ${index + 1}`))
    const wanted = [...privateTables('IPv4'), ...many]
    const name = "x  y; flush ruleset; '"
    const theirs: readonly NftItem[] = [
      // 192.0.2.9 . tcp . 1
      element('ports', '0xc00002090600000100010000'),
      { kind: 'set', family: 'IPv4', name, fields: ['dport'], isMap: false },
      { kind: 'chain', family: 'IPv4', name, rules: [{ statements: [RETURN] }] },
    ]
    await kernel.apply(...all('add', [...wanted, ...theirs]))
    const live = await kernel.tables.list('all', signal)
    const keys = theirs.map((item) => nftKey(item))
    assert.deepEqual([...(await kernel.tables.list(keys, signal)).keys()].sort(), keys.toSorted())
    const ops = plan(wanted, live)
    assert.deepEqual(ops.map((op) => NFT_TABLE.key(op)).sort(), keys.toSorted())
    await kernel.apply(...ops)
    assert.deepEqual(differences(wanted, await kernel.tables.list('all', signal)), [])
  })

  it('has an element with an expression, which the kernel takes and nft does not write, replaced', async () => {
    const wanted = [...privateTables('IPv4'), element('health-check-ports', 'tcp . 10257')]
    await kernel.apply(...all('add', privateTables('IPv4')))
    await kernel.netlink.transact(
      requestOf((batch) => {
        encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
        beginNft(batch, 'NEWSETELEM', NLM_F_CREATE, 'IPv4', PRIVATE_TABLE)
        batch.string(2, 'health-check-ports')
        const nests = [batch.nest(3), batch.nest(1), batch.nest(1)]
        batch.binary(1, Uint8Array.of(6, 0, 0, 0, 40, 17, 0, 0))
        batch.endNest(nests.pop() ?? 0)
        // NFTA_SET_ELEM_EXPR, NFTA_EXPR_NAME
        const expression = batch.nest(7)
        batch.string(1, 'counter')
        batch.endNest(expression)
        while (nests.length > 0) batch.endNest(nests.pop() ?? 0)
        batch.end()
        encodeBatchEnd(batch, NFNL_SUBSYS.NFTABLES)
      }),
      { isTransaction: true },
    )
    assert.match(nftText('IPv4'), /tcp \. 10257 counter packets 0/)
    const ops = plan(wanted, await kernel.tables.list('all', signal))
    assert.deepEqual(
      ops.map(({ kind, item }) => `${kind} ${nftKey(item)}`),
      ['replace ip element health-check-ports tcp . 10257'],
    )
    await kernel.apply(...ops)
    assert.deepEqual(differences(wanted, await kernel.tables.list('all', signal)), [])
    assert.doesNotMatch(nftText('IPv4'), /counter/)
  })

  it('gets a set or chain of another kind back although rules refer to it, and no packet sees the set empty', async () => {
    const wanted = privateTables('IPv4')
    const others = wanted.flatMap((item): readonly NftItem[] => {
      if (item.kind === 'set' && item.name === 'ports') return [{ ...item, fields: ['daddr'] }]
      if (item.kind === 'element' && item.set === 'ports') return []
      if (item.kind === 'chain' && item.name === 'filter-input')
        return [{ ...item, hook: { type: 'filter', hook: 'input', priority: 9 } }]
      return [item]
    })
    await kernel.apply(...all('add', [...others, element('ports', '192.0.2.1'), element('ports', '192.0.2.2')]))
    const ops = plan(wanted, await kernel.tables.list('all', signal))
    const seen: string[] = []
    const transact = kernel.netlink.transact.bind(kernel.netlink)
    kernel.netlink.transact = async (...given) => {
      const outcomes = await transact(...given)
      seen.push(sh('nft list set ip kube-ipvs ports'))
      return outcomes
    }
    await kernel.apply(...ops)
    assert.ok(seen.length > 1)
    for (const text of seen) assert.match(text, /elements = \{ [^,]*,[^,]* \}/)
    assert.deepEqual(differences(wanted, await kernel.tables.list('all', signal)), [])
  })

  it('gets a set of another type back without its old elements, which nobody has deleted', async () => {
    const wanted = privateTables('IPv4')
    const content = wanted.filter((item) => item.kind !== 'element' || item.set !== 'ports')
    const ports = wanted.find((item) => item.kind === 'set' && item.name === 'ports')
    assert.ok(ports?.kind === 'set')
    const others = content.map((item) => (item === ports ? { ...ports, fields: ['daddr'] as const } : item))
    await kernel.apply(...all('add', [...others, element('ports', '192.0.2.1')]))
    await kernel.apply({ kind: 'replace', item: ports })
    assert.deepEqual(differences(content, await kernel.tables.list('all', signal)), [])
  })

  it('gets a set of another type back to which no rule refers', async () => {
    const wanted = [...privateTables('IPv4')].filter(({ kind }) => kind !== 'chain')
    const content = wanted.filter((item) => item.kind !== 'element' || item.action === undefined)
    const others = content.flatMap((item): readonly NftItem[] => {
      if (item.kind === 'set' && item.name === 'ports') return [{ ...item, fields: ['daddr'] }]
      return item.kind === 'element' && item.set === 'ports' ? [] : [item]
    })
    const old = Array.from({ length: 200 }, (_, index) => element('ports', `192.0.2.${index}`))
    await kernel.apply(...all('add', [...others, ...old]))
    await kernel.apply(...plan(content, await kernel.tables.list('all', signal)))
    assert.deepEqual(differences(content, await kernel.tables.list('all', signal)), [])
  })

  it('takes operations while it runs others', async () => {
    await kernel.apply(...all('add', privateTables('IPv4')))
    const lists = [1, 2, 3].map((port) =>
      Array.from({ length: 300 }, (_, index) => element('ports', `192.0.${index >> 8}.${index & 255} . udp . ${port}`)),
    )
    for (const outcomes of await Promise.all(lists.map((list) => kernel.tables.apply(all('add', list), signal))))
      for (const error of outcomes) assert.ifError(error)
    const live = await kernel.tables.list('all', signal)
    assert.deepEqual(differences([...privateTables('IPv4'), ...lists.flat()], live), [])
  })

  it('gives way while it writes thousands of elements again', async () => {
    const wanted = privateTables('IPv4')
    const many = Array.from({ length: 30_000 }, (_, index) =>
      element('ports', `10.2.${index >> 8}.${index & 255} . udp . 9`),
    )
    const chain = wanted.find((item) => item.kind === 'chain' && item.hook?.type === 'filter')
    assert.ok(chain?.kind === 'chain')
    const other = { ...chain, hook: { type: 'filter', hook: 'input', priority: 9 } } as const
    await kernel.apply(...all('add', [...wanted.map((item) => (item === chain ? other : item)), ...many]))
    const turns = countTurns()
    const written: { messages: number; turns: number }[] = []
    const [dump, transact] = [kernel.netlink.dump.bind(kernel.netlink), kernel.netlink.transact.bind(kernel.netlink)]
    let read = 0
    kernel.netlink.dump = async (...given) => {
      const found = await dump(...given)
      read = turns.count
      return found
    }
    kernel.netlink.transact = (batch, options) => {
      written.push({ messages: batch.count, turns: turns.count - read })
      return transact(batch, options)
    }
    await kernel.apply({ kind: 'replace', item: chain })
    turns.stop()
    assert.deepEqual(differences([...wanted, ...many], await kernel.tables.list('all', signal)), [])
    const [rebuilt, ...more] = written.filter(({ messages }) => messages > 30)
    assert.deepEqual(more, [])
    assert.ok(rebuilt !== undefined && rebuilt.turns >= 5, `${rebuilt?.turns} turns`)
  })

  it('fails at once where thousands are added to a set that is not there', async () => {
    await kernel.apply(...all('add', privateTables('IPv4')))
    const before = kernel.netlink.counters.messagesSent
    const ops = Array.from({ length: 20_000 }, (_, index) =>
      element('no-such-map', `192.0.2.1 . tcp . ${index}`, 'services'),
    )
    const others = Array.from({ length: 50 }, (_, index) => element('ports', `192.0.2.1 . tcp . ${index}`))
    const outcomes = await kernel.tables.apply(all('add', [...ops.slice(0, 500), ...others, ...ops.slice(500)]), signal)
    assert.equal(outcomes.filter((error) => codeOf(error) === 'ENOENT').length, ops.length)
    assert.equal(outcomes.filter((error) => error === undefined).length, others.length)
    assert.match(outcomes[0]?.message ?? '', /the set ip kube-ipvs no-such-map does not exist/)
    assert.deepEqual(
      await kernel.tables.apply(all('delete', ops), signal),
      ops.map(() => undefined),
    )
    const sent = kernel.netlink.counters.messagesSent - before
    assert.ok(sent < 40, `${sent} messages`)
  })

  it('gets a plain chain back where another program has put a base chain', async () => {
    const wanted = privateTables('IPv4')
    const name = 'ranges-default/web'
    const hooks = [
      'type filter hook input priority 7; policy accept;',
      'type filter hook input priority 7; policy drop;',
      'type route hook output priority 7;',
    ]
    for (const hook of hooks) {
      sh('nft flush ruleset')
      const others = wanted
        .filter(({ kind }) => kind !== 'element')
        .filter((item) => !('name' in item) || item.name !== name)
      await kernel.apply(...all('add', others))
      sh(`nft -f - <<'END'
        table ip kube-ipvs {
          chain ${name} { ${hook} counter accept; }
        }
END`)
      const ops = plan(wanted, await kernel.tables.list('all', signal))
      const change = ops.find(({ item }) => 'name' in item && item.name === name)
      await kernel.apply(...ops)
      assert.deepEqual(differences(wanted, await kernel.tables.list('all', signal)), [])
      assert.match(change === undefined ? '' : operationText(change), /flush chain .*; delete chain .*; add chain/)
      assert.doesNotMatch(sh(`nft list chain ip kube-ipvs ${name}`), /hook|counter/)
    }
  })

  it('has as many networks in a rule as a Service may have source ranges', async () => {
    for (const family of FAMILIES) {
      const cidrs = Array.from({ length: 10_000 }, (_, index) =>
        family === 'IPv4' ? `10.${index >> 8}.${index & 255}.0/25` : `fd00:0:0:${index.toString(16)}::/65`,
      )
      const name = 'ranges-default/many'
      const rules = [{ statements: [{ kind: 'networks', field: 'saddr', cidrs }, RETURN] }] as const
      const wanted = [
        { kind: 'table', family, isOwned: false } as const,
        { kind: 'chain', family, name, rules } as const,
      ]
      await kernel.apply(...all('add', wanted))
      const live = await kernel.tables.list('all', signal)
      assert.deepEqual(
        differences(wanted, live).filter((key) => live.get(key)?.family === family),
        [],
      )
      assert.equal(nftText(family).match(/\/(?:25|65)/g)?.length, cidrs.length)
      await kernel.apply({
        kind: 'replace',
        item: { kind: 'chain', family, name, rules: [{ statements: [RETURN] }, ...rules] },
      })
    }
  })

  it('takes all but the refused operations', async () => {
    const wanted = privateTables('IPv4')
    await kernel.apply(...all('add', wanted))
    const good = Array.from({ length: 700 }, (_, index) =>
      element('marks', `192.0.2.${index % 200} . tcp . ${index}`, 'services'),
    )
    const bad = [
      element('marks', '192.0.2.9 . udp . 1', 'no-such-chain'),
      element('no-such-set', '192.0.2.9 . udp . 2'),
    ]
    const ops = all('add', [...good.slice(0, 350), ...bad, ...good.slice(350)])
    const outcomes = await kernel.tables.apply(ops, signal)
    const failed = outcomes.flatMap((error, index) => (error === undefined ? [] : [`${index} ${codeOf(error)}`]))
    assert.deepEqual(failed, ['350 ENOENT', '351 ENOENT'])
    assert.match(
      outcomes[350]?.message ?? '',
      /nft add element ip kube-ipvs marks '\{ 192\.0\.2\.9 \. udp \. 1 : goto no-such-chain \}'/,
    )
    assert.deepEqual(differences([...wanted, ...good], await kernel.tables.list('all', signal)), [])
  })

  it('gets an element with another verdict in one transaction', async () => {
    await kernel.apply(...all('add', privateTables('IPv4')))
    const before = element('marks', '10.96.0.1 . tcp . 443', 'services')
    const [error] = await kernel.tables.apply([{ kind: 'add', item: { ...before, action: { kind: 'drop' } } }], signal)
    // Kernels differ in the code.
    assert.match(codeOf(error), /^(?:EBUSY|EEXIST)$/)
    await kernel.apply({ kind: 'replace', item: { ...before, action: { kind: 'drop' } } })
    const live = await kernel.tables.list([nftKey(before)], signal)
    assert.deepEqual([...live.values()], [{ ...before, action: { kind: 'drop' } }])
  })

  it('is listed while other tables change', async () => {
    const wanted = privateTables('IPv4')
    await kernel.apply(...all('add', wanted))
    const loop = 'for i in $(seq 40); do nft add table ip other; nft delete table ip other; done'
    const others = spawn('sh', ['-c', loop], { stdio: 'ignore' })
    const ended = once(others, 'exit')
    let lists = 0
    while (others.exitCode === null) {
      assert.deepEqual(differences(wanted, await kernel.tables.list('all', signal)), [])
      lists++
      await nextTurn()
    }
    await ended
    assert.ok(lists > 10, `${lists} lists`)
  })

  it('is listed and emptied without a stall when others filled it', async () => {
    await kernel.apply(...all('add', privateTables('IPv4')))
    const count = 100_000
    const theirs = Array.from(
      { length: count },
      (_, index) => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255} . udp . 9`,
    )
    const input = `add element ip kube-ipvs ports { ${theirs.join(', ')} }\n`
    const { stderr } = spawnSync('nft', ['-f', '-'], { input, encoding: 'utf8', maxBuffer: 1 << 26 })
    assert.equal(stderr, '')
    const turns = countTurns()
    const live = await kernel.tables.list('all', signal)
    await kernel.apply(...plan(privateTables('IPv4'), live))
    assert.equal(live.size, count + privateTables('IPv4').length)
    assert.deepEqual(differences(privateTables('IPv4'), await kernel.tables.list('all', signal)), [])
    // At most some thousand elements at a time.
    assert.ok(turns.stop() > 40)
  })
})

/** How many turns the event loop makes. */
function countTurns(): { readonly count: number; stop(): number } {
  let turns = 0
  let isRunning = true
  const turn = (): void => {
    turns++
    if (isRunning) setImmediate(turn)
  }
  setImmediate(turn)
  return {
    get count() {
      return turns
    },
    stop() {
      isRunning = false
      return turns
    },
  }
}
