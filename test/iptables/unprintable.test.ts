/**
 * Tables that iptables cannot print, because nft made a rule in them: they are written all the
 * same, nothing is written twice, and everything of ours can be removed.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { UnprintableTable } from '../../src/iptables/read-rules.ts'
import { IptablesTable, type RulesRead } from '../../src/iptables/table.ts'
import type { IptablesItem, IptablesOperation } from '../../src/iptables/types.ts'
import { renderIpvsRules } from '../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import { IPVS_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import type { PassReport } from '../../src/sync/pass.ts'
import { reconciled } from '../../src/sync/reconciled.ts'
import { Reconciler } from '../../src/sync/reconciler.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { CodedError } from '../../src/values/errors.ts'
import { everything } from '../modes/ipvs/iptables-firewall/rules/wanted.ts'
import { MemoryIptables } from './memory-iptables.ts'

const NATIVE = 'nft ct state established,related accept'

class Bench {
  readonly memory: MemoryIptables
  readonly sync: TableSync<IptablesItem, IptablesOperation>
  readonly #reconciler: Reconciler
  unprintable: readonly UnprintableTable[] = []
  #nowMs = 0

  constructor(memory = new MemoryIptables(), hasNft = true) {
    this.memory = memory
    const nft = hasNft ? memory.access : undefined
    const onRead = (_family: unknown, { unprintable }: RulesRead): void => {
      this.unprintable = unprintable
    }
    this.sync = new TableSync(new IptablesTable('IPv4', memory, IPVS_LAYOUT, { nft, onRead }))
    this.#reconciler = new Reconciler([reconciled(this.sync, { atOnce: true })])
  }

  want(): this {
    for (const [key, item] of renderIpvsRules(everything('IPv4')).items) this.sync.want(key, item)
    return this
  }

  /** Returns how many restores it took. */
  async pass(): Promise<PassReport & { readonly restores: number }> {
    const before = this.memory.inputs.length
    const report = await this.#reconciler.pass({
      signal: new AbortController().signal,
      now: () => this.#nowMs,
      mayRemove: true,
    })
    this.#nowMs += 60_000
    const { applied, failures, repairs, unreadable } = report
    return { applied, failures, repairs, unreadable, restores: this.memory.inputs.length - before }
  }
}

/** The tables without what nft made. */
function ours({ tables }: MemoryIptables): unknown {
  return Array.from(tables, ([name, table]) => [
    name,
    Array.from(table, ([chain, rules]) => [chain, rules.filter((rule) => !rule.startsWith('nft '))]).sort(),
  ])
}

async function settled(memory = new MemoryIptables()): Promise<Bench> {
  const bench = new Bench(memory).want()
  const { failures, unreadable } = await bench.pass()
  assert.deepEqual([failures, unreadable], [[], []])
  return bench
}

const EARLY = [false, true]

for (const endsEarly of EARLY)
  describe(`where iptables-save ${endsEarly ? 'ends at a rule of nft' : 'names the table that it cannot print'}`, () => {
    const memoryWith = (table: string, chain: string, rule = NATIVE): MemoryIptables => {
      const memory = new MemoryIptables()
      memory.endsEarly = endsEarly
      memory.tables.get(table)?.get(chain)?.push(rule)
      return memory
    }
    const target = async (): Promise<unknown> => ours((await settled()).memory)

    for (const [table, chain] of [
      ['filter', 'INPUT'],
      ['nat', 'POSTROUTING'],
    ] as const)
      it(`a start writes everything beside a rule in ${table} ${chain}, and nothing again`, async () => {
        const { memory, unprintable, sync } = await settled(memoryWith(table, chain))
        assert.deepEqual(ours(memory), await target())
        assert.deepEqual(
          unprintable.map((one) => [one.table, one.rules.map((rule) => rule.chain)]),
          [[table, [chain]]],
        )
        const again = new Bench(memory).want()
        assert.deepEqual([(await again.pass()).restores, again.unprintable.length], [0, 1])
        sync.doubt('all')
        memory.tables.get(table)?.get(chain)?.pop()
        const last = new Bench(memory).want()
        assert.deepEqual([(await last.pass()).restores, last.unprintable.length], [0, 0])
      })

    it('a rule in front of our jumps changes nothing, and a lost jump comes back', async () => {
      const bench = await settled(memoryWith('filter', 'OUTPUT'))
      const input = bench.memory.tables.get('filter')?.get('INPUT') ?? []
      const jumps = [...input]
      input.unshift(NATIVE)
      bench.sync.doubt('all')
      assert.equal((await bench.pass()).restores, 0)
      const lost = bench.memory.tables.get('filter')?.get('INPUT')?.pop() ?? ''
      bench.sync.doubt('all')
      const { restores, failures } = await bench.pass()
      assert.deepEqual([restores, failures], [1, []])
      const now = bench.memory.tables.get('filter')?.get('INPUT')
      assert.deepEqual(now, [lost, NATIVE, ...jumps.slice(0, -1)])
    })

    it('a removal takes everything of ours, also jumps behind a rule that iptables cannot parse', async () => {
      const bench = await settled(memoryWith('filter', 'INPUT'))
      bench.memory.tables.get('filter')?.get('INPUT')?.unshift(NATIVE)
      const cleanup = new Bench(bench.memory)
      const { failures, unreadable } = await cleanup.pass()
      assert.deepEqual([failures, unreadable], [[], []])
      const empty = new MemoryIptables()
      assert.deepEqual(ours(bench.memory), ours(empty))
      assert.deepEqual(bench.memory.tables.get('filter')?.get('INPUT'), [NATIVE, NATIVE])
    })

    it('a rule of nft in a chain of ours is written over, and other chains are left alone', async () => {
      const bench = await settled()
      bench.memory.endsEarly = endsEarly
      const before = ours(bench.memory)
      bench.memory.tables.get('nat')?.get('KUBE-SERVICES')?.unshift(NATIVE)
      bench.sync.doubt('all')
      const { restores, repairs } = await bench.pass()
      assert.equal(restores, 1)
      assert.deepEqual(
        repairs.map(({ key }) => key),
        ['nat KUBE-SERVICES'],
      )
      assert.match(repairs[0]?.commands[0] ?? '', /^iptables -t nat -F KUBE-SERVICES\n/)
      assert.deepEqual(ours(bench.memory), before)
      assert.doesNotMatch(bench.memory.text(), /incompatible/)
    })

    it('where no single chain can be printed, chains are written again at each reading, and jumps are not doubled', async () => {
      const bench = await settled(memoryWith('filter', 'INPUT'))
      const before = ours(bench.memory)
      bench.memory.refusesShow = true
      bench.sync.doubt('all')
      const { restores, failures, repairs } = await bench.pass()
      assert.deepEqual([restores, failures], [1, []])
      assert.ok(repairs.every(({ key }) => key.startsWith('filter KUBE-')))
      assert.deepEqual(ours(bench.memory), before)
    })
  })

describe('a reading that fails', () => {
  it('because a program was killed over the rules of others stops no writing', async () => {
    for (const code of ['program-timeout', 'program-output', 'iptables-save-truncated']) {
      const memory = new MemoryIptables()
      memory.save = async () => {
        throw new CodedError(code, 'killed')
      }
      const bench = await settled(memory)
      assert.deepEqual(ours(memory), ours((await settled()).memory))
      bench.sync.doubt('all')
      assert.equal((await bench.pass()).restores, 0, code)
    }
  })

  it('because there is no program, or in the legacy back end, is a failure', async () => {
    const missing = new MemoryIptables()
    missing.save = async () => {
      throw new CodedError('program-missing', 'gone')
    }
    assert.equal((await new Bench(missing).want().pass()).unreadable.length, 1)
    const legacy = new MemoryIptables()
    legacy.save = async () => {
      throw new CodedError('program-timeout', 'killed')
    }
    assert.equal((await new Bench(legacy, false).want().pass()).unreadable.length, 1)
    const hidden = new MemoryIptables()
    hidden.tables.get('filter')?.get('INPUT')?.push(NATIVE)
    assert.equal((await new Bench(hidden, false).want().pass()).unreadable.length, 1)
  })
})
