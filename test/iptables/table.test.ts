/**
 * The table through the reconciler into tables in memory: number of processes, drift, every kind of
 * failure. After any failures enough passes reach the target, and one more starts only a save.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { IptablesItem, IptablesOperation } from '../../src/iptables/types.ts'
import { MissingFeature } from '../../src/values/errors.ts'
import { renderIpvsRules, type RuleInput } from '../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import { IPTABLES_LAYOUT, IPVS_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import { IptablesTable } from '../../src/iptables/table.ts'
import type { PassReport } from '../../src/sync/pass.ts'
import { reconciled } from '../../src/sync/reconciled.ts'
import { Reconciler } from '../../src/sync/reconciler.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { CodedError } from '../../src/values/errors.ts'
import { MemoryIptables } from './memory-iptables.ts'
import { everything } from '../modes/ipvs/iptables-firewall/rules/wanted.ts'

class Bench {
  readonly memory = new MemoryIptables()
  readonly sync: TableSync<IptablesItem, IptablesOperation>
  readonly #reconciler: Reconciler
  nowMs = 0

  constructor() {
    this.sync = new TableSync(new IptablesTable('IPv4', this.memory, IPVS_LAYOUT))
    this.#reconciler = new Reconciler([reconciled(this.sync)])
  }

  want(change: Partial<RuleInput> = {}): void {
    for (const [key, item] of renderIpvsRules(everything('IPv4', change)).items) this.sync.want(key, item)
  }

  wantNothing(): void {
    for (const key of this.sync.desiredKeys()) this.sync.want(key, undefined)
  }

  /** @returns the report and how many restores it took */
  async pass(): Promise<PassReport & { readonly restores: number }> {
    const before = this.memory.inputs.length
    const report = await this.#reconciler.pass({
      signal: new AbortController().signal,
      now: () => this.nowMs,
      mayRemove: true,
    })
    this.nowMs += 60_000
    const { applied, failures, repairs, unreadable } = report
    return { applied, failures, repairs, unreadable, restores: this.memory.inputs.length - before }
  }
}

async function settled(): Promise<Bench> {
  const bench = new Bench()
  bench.want()
  assert.deepEqual((await bench.pass()).failures, [])
  return bench
}

const codes = (report: PassReport): readonly string[] =>
  report.failures.map(({ key, error }) => `${key}: ${error instanceof CodedError ? error.code : error.message}`)
const reasonOf = (report: PassReport): string => report.failures[0]?.error.message ?? ''

test('IptablesTable takes one save and one restore for a cold start, and none when nothing changed', async () => {
  const bench = await settled()
  assert.equal(bench.memory.saves, 1)
  assert.equal(bench.memory.inputs.length, 1)
  assert.equal((await bench.pass()).restores, 0)
  assert.equal(bench.memory.saves, 1)
  bench.sync.doubt('all')
  assert.equal((await bench.pass()).restores, 0)
  assert.equal(bench.memory.saves, 2)
})

test('IptablesTable takes one restore for a change of several chains in both tables', async () => {
  const bench = await settled()
  bench.want({ masqueradeBit: 20, filled: new Set() })
  const report = await bench.pass()
  assert.equal(report.restores, 1)
  assert.match(bench.memory.inputs.at(-1) ?? '', /\*nat[^]*\*filter/)
  assert.doesNotMatch(bench.memory.inputs.at(-1) ?? '', /-I |KUBE-IPVS-FILTER/)
})

test('IptablesTable repairs what others changed in its chains, and leaves chains of others', async () => {
  const bench = await settled()
  const target = bench.memory.text()
  const rows: readonly (readonly [what: string, change: () => void])[] = [
    ['flush', () => bench.memory.run('nat', '-F KUBE-SERVICES')],
    ['foreign rule', () => bench.memory.run('nat', '-I KUBE-POSTROUTING -s 192.0.2.1 -j ACCEPT')],
    ['rule gone', () => bench.memory.tables.get('filter')?.get('KUBE-FORWARD')?.pop()],
    ['order', () => rotate(bench.memory.tables.get('filter')?.get('KUBE-FORWARD'))],
    ['jump gone', () => bench.memory.tables.get('filter')?.get('INPUT')?.shift()],
    ['all gone', () => bench.memory.tables.set('filter', new Map(new MemoryIptables().tables.get('filter')))],
  ]
  for (const [what, change] of rows) {
    change()
    bench.sync.doubt('all')
    const report = await bench.pass()
    assert.equal(report.restores, 1, what)
    assert.ok(report.repairs.length > 0, what)
    assert.equal(bench.memory.text(), target, what)
  }
  bench.memory.run('filter', '-N MY-CHAIN')
  bench.memory.run('filter', '-A MY-CHAIN -s 192.0.2.3 -j DROP')
  bench.memory.run('filter', '-I INPUT -j MY-CHAIN')
  bench.sync.doubt('all')
  assert.equal((await bench.pass()).restores, 0)
  assert.match(bench.memory.text(), /-A MY-CHAIN -s 192\.0\.2\.3\/32 -j DROP/)
})

test('IptablesTable leaves the place and the copies of a jump', async () => {
  const bench = await settled()
  const input = bench.memory.tables.get('filter')?.get('INPUT')
  input?.reverse()
  input?.push(input[0] ?? '')
  bench.sync.doubt('all')
  assert.equal((await bench.pass()).restores, 0)
  bench.wantNothing()
  assert.deepEqual((await bench.pass()).failures, [])
  assert.equal(bench.memory.text(), new MemoryIptables().text())
})

for (const namesCommit of [false, true]) {
  const how = namesCommit ? 'that names COMMIT' : 'that names its line'

  test(`IptablesTable failure ${how} of one chain leaves the others written`, async () => {
    const bench = await settled()
    bench.memory.namesCommit = namesCommit
    bench.memory.refuse = (line) => (line.startsWith('-A KUBE-MARK-MASQ') ? 'Invalid argument' : undefined)
    const markBefore = bench.memory.tables.get('nat')?.get('KUBE-MARK-MASQ')
    bench.want({ masqueradeBit: 20, filled: new Set() })
    const report = await bench.pass()
    assert.deepEqual(codes(report), ['nat KUBE-MARK-MASQ: iptables-restore-failed'])
    assert.match(reasonOf(report), /Invalid argument/)
    assert.ok(report.restores <= 8, `${report.restores} restores`)
    // The chain that failed keeps the rules it had.
    assert.deepEqual(bench.memory.tables.get('nat')?.get('KUBE-MARK-MASQ'), markBefore)
    const other = new Bench()
    other.want({ masqueradeBit: 20, filled: new Set() })
    bench.memory.refuse = () => undefined
    assert.deepEqual((await bench.pass()).failures, [])
    await other.pass()
    assert.equal(bench.memory.text(), other.memory.text())
  })

  test(`IptablesTable failure ${how} at a cold start leaves an empty chain that others lead to`, async () => {
    const bench = new Bench()
    bench.memory.namesCommit = namesCommit
    bench.memory.refuse = (line) =>
      line.startsWith('-A KUBE-LOAD-BALANCER ') ? "Set KUBE-X doesn't exist." : undefined
    bench.want()
    const report = await bench.pass()
    assert.deepEqual(codes(report), ['nat KUBE-LOAD-BALANCER: iptables-restore-failed'])
    assert.deepEqual(bench.memory.tables.get('nat')?.get('KUBE-LOAD-BALANCER'), [])
    assert.ok(bench.memory.tables.get('nat')?.get('KUBE-SERVICES')?.length)
    assert.equal(bench.memory.tables.get('nat')?.get('OUTPUT')?.length, 1)
  })
}

test('IptablesTable failure names the rule when its line is named', async () => {
  const bench = new Bench()
  bench.memory.refuse = (line) => (line.includes('--reject-with') ? 'Invalid argument' : undefined)
  bench.want()
  assert.match(
    reasonOf(await bench.pass()),
    /Invalid argument \(-A KUBE-IPVS-FILTER .* --reject-with icmp-port-unreachable\)/,
  )
})

for (const namesCommit of [false, true]) {
  const how = namesCommit ? 'when no line is named' : 'when its line is named'
  test(`IptablesTable writes a chain without the rules of a missing match, and names the match, ${how}`, async () => {
    const bench = new Bench()
    bench.memory.namesCommit = namesCommit
    bench.memory.refuse = (line) => (/-m (ipvs|physdev)/.test(line) ? "Couldn't load match" : undefined)
    bench.want()
    const report = await bench.pass()
    const missing = report.failures.map(({ key, error }) => [key, error instanceof MissingFeature && error.feature])
    assert.deepEqual(missing.sort(), [
      ['filter KUBE-IPVS-OUT-FILTER', 'ipvs'],
      ['nat KUBE-SERVICES', 'physdev'],
    ])
    bench.memory.refuse = () => undefined
    const without = new Bench()
    without.want({ missingMatches: new Set(['ipvs', 'physdev'] as const) })
    await without.pass()
    assert.equal(bench.memory.text(), without.memory.text())
    bench.want({ missingMatches: new Set(['ipvs', 'physdev'] as const) })
    const after = await bench.pass()
    assert.equal(after.restores, 0, 'once they are not wanted nothing is left to do')
  })
}

test('IptablesTable does not insert a jump twice when a later table fails', async () => {
  for (const silent of [false, true]) {
    const bench = new Bench()
    const real = bench.memory.restore.bind(bench.memory)
    let calls = 0
    bench.memory.refuse = (line) => (line.startsWith('-A KUBE-FORWARD') ? 'no' : undefined)
    bench.memory.restore = async (family, input) => {
      const result = await real(family, input)
      // Silent: the program says neither line nor table.
      return silent && calls++ === 0 ? { exitCode: 1, errorText: 'it did not work' } : result
    }
    bench.want()
    await bench.pass()
    assert.equal(bench.memory.tables.get('nat')?.get('PREROUTING')?.length, 1)
    assert.equal(bench.memory.tables.get('filter')?.get('INPUT')?.length, 3)
  }
})

test('IptablesTable does not retry without a program, an answer or the lock', async () => {
  const rows: readonly (readonly [instead: () => never, code: string])[] = [
    [() => raise('iptables-missing'), 'iptables-missing'],
    [() => raise('program-timeout'), 'program-timeout'],
  ]
  for (const [instead, code] of rows) {
    const bench = await settled()
    bench.memory.instead = instead
    bench.want({ masqueradeBit: 3 })
    const report = await bench.pass()
    assert.equal(report.restores, 1)
    assert.ok(report.failures.length > 0 && codes(report).every((text) => text.endsWith(`: ${code}`)))
  }
  const bench = await settled()
  bench.memory.instead = () => ({ exitCode: 4, errorText: 'Another app is currently holding the xtables lock.' })
  bench.want({ masqueradeBit: 3 })
  const report = await bench.pass()
  assert.equal(report.restores, 1)
  assert.ok(codes(report).every((text) => text.endsWith(': iptables-locked')))
  assert.match(reasonOf(report), /holding the xtables lock/)
})

test('IptablesTable starts a bounded number of processes when everything fails', async () => {
  for (const namesCommit of [false, true]) {
    const bench = new Bench()
    bench.memory.namesCommit = namesCommit
    bench.memory.refuse = (line) => (line.startsWith(':') || line.startsWith('-') ? 'no' : undefined)
    bench.want()
    const report = await bench.pass()
    assert.equal(report.failures.length, 20)
    assert.ok(report.restores <= 24, `${report.restores} restores`)
  }
})

test('IptablesTable removes all its chains, but empties and reports one that others lead to', async () => {
  const bench = await settled()
  bench.memory.run('filter', '-A INPUT -s 192.0.2.1 -j KUBE-FORWARD')
  bench.sync.doubt('all')
  bench.wantNothing()
  const report = await bench.pass()
  assert.equal(report.restores, 1)
  assert.deepEqual(codes(report), ['filter KUBE-FORWARD: iptables-chain-in-use'])
  assert.match(reasonOf(report), /-t filter -A INPUT -s 192\.0\.2\.1\/32 -j KUBE-FORWARD leads to it/)
  const expected = new MemoryIptables()
  expected.run('filter', '-N KUBE-FORWARD')
  expected.run('filter', '-A INPUT -s 192.0.2.1 -j KUBE-FORWARD')
  assert.equal(bench.memory.text(), expected.text())
})

test('IptablesTable empties a chain that a rule of others leads to since the last save', async () => {
  const bench = await settled()
  bench.memory.run('filter', '-A INPUT -s 192.0.2.1 -j KUBE-FORWARD')
  bench.wantNothing()
  const report = await bench.pass()
  assert.deepEqual(codes(report), ['filter KUBE-FORWARD: iptables-chain-in-use'])
  assert.deepEqual([...(bench.memory.tables.get('filter')?.keys() ?? [])].sort(), [
    'FORWARD',
    'INPUT',
    'KUBE-FORWARD',
    'OUTPUT',
  ])
  assert.deepEqual([...(bench.memory.tables.get('nat')?.keys() ?? [])].sort(), [
    'INPUT',
    'OUTPUT',
    'POSTROUTING',
    'PREROUTING',
  ])
})

test('IptablesTable changes nothing while it cannot be read', async () => {
  const bench = await settled()
  bench.memory.save = async () => "# Table `filter' is incompatible, use 'nft' tool.\n"
  bench.sync.doubt('all')
  const report = await bench.pass()
  assert.equal(report.restores, 0)
  assert.match(report.unreadable[0]?.error.message ?? '', /filter/)
})

test('IptablesTable reaches the target after any failures and foreign changes', async () => {
  const step = fc.record({
    refused: fc.constantFrom(
      'KUBE-SERVICES',
      'KUBE-MARK-MASQ',
      'KUBE-IPVS-FILTER',
      'INPUT',
      'OUTPUT',
      '-m ipvs',
      'nothing',
    ),
    flushed: fc.constantFrom('KUBE-SERVICES', 'KUBE-POSTROUTING', 'OUTPUT', 'nothing'),
    filled: fc.boolean(),
    namesCommit: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 4 }), async (steps) => {
      const bench = new Bench()
      for (const { refused, flushed, filled, namesCommit } of steps) {
        bench.memory.namesCommit = namesCommit
        bench.memory.refuse = (line) => (line.includes(`${refused} `) && !line.startsWith(':') ? 'no' : undefined)
        if (bench.memory.tables.get('nat')?.has(flushed) === true) bench.memory.run('nat', `-F ${flushed}`)
        bench.want(filled ? {} : { filled: new Set() })
        bench.sync.doubt('all')
        await bench.pass()
      }
      bench.memory.refuse = () => undefined
      bench.want()
      bench.sync.doubt('all')
      // A key that was repaired often waits for its turn.
      for (let passes = 0; passes < 3; passes++) await bench.pass()
      const report = await bench.pass()
      assert.deepEqual(report.failures, [])
      assert.equal(report.restores, 0)
      const clean = await settled()
      const chains = (memory: MemoryIptables) => memory.text().split('\n').sort()
      assert.deepEqual(chains(bench.memory), chains(clean.memory))
    }),
    { numRuns: 60 },
  )
})

function raise(code: string): never {
  throw new CodedError(code, 'told to fail')
}

function rotate(rules: string[] | undefined): void {
  const first = rules?.shift()
  if (first !== undefined) rules?.push(first)
}

test('IptablesTable never writes a rule that could end its line, and writes the others', async () => {
  const bench = await settled()
  const bad = {
    kind: 'chain',
    table: 'nat',
    chain: 'KUBE-POSTROUTING',
    rules: ['-m comment --comment "a\n-I INPUT -j X'],
  } as const
  bench.sync.want('nat KUBE-POSTROUTING', bad)
  bench.sync.want('nat KUBE-MARK-MASQ', { ...bad, chain: 'KUBE-MARK-MASQ', rules: ['-j MARK --set-xmark 0x1/0x1'] })
  const report = await bench.pass()
  assert.deepEqual(codes(report), ['nat KUBE-POSTROUTING: iptables-unprintable'])
  assert.match(bench.memory.inputs.at(-1) ?? '', /-A KUBE-MARK-MASQ -j MARK --set-xmark 0x1\/0x1/)
  assert.doesNotMatch(bench.memory.inputs.join(''), /INPUT -j X/)
})

/** Chains of `count` Services with `endpoints` endpoints each, wanted in an order that no restore could write. */
function manyChains(count: number, endpoints: number): readonly IptablesItem[] {
  const chain = (name: string, rules: readonly string[]): IptablesItem => ({
    kind: 'chain',
    table: 'nat',
    chain: name,
    rules,
  })
  const hash = (number: number): string =>
    number
      .toString(8)
      .padStart(16, '0')
      .replaceAll(/./g, (digit) => 'ABCDEFGH'.charAt(Number(digit)))
  const services = Array.from({ length: count }, (_, service) => {
    const own = Array.from({ length: endpoints }, (__, endpoint) => `KUBE-SEP-${hash(service * 10_000 + endpoint)}`)
    return {
      top: chain(`KUBE-EXT-${hash(service)}`, [`-j KUBE-SVC-${hash(service)}`]),
      balance: chain(
        `KUBE-SVC-${hash(service)}`,
        own.map((name) => `-j ${name}`),
      ),
      leaves: own.map((name) => chain(name, ['-s 10.1.1.1/32 -j KUBE-MARK-MASQ', '-p tcp -m tcp -j ACCEPT'])),
    }
  })
  return [
    chain(
      'KUBE-SERVICES',
      services.map((_, service) => `-p tcp -m tcp -j KUBE-EXT-${hash(service)}`),
    ),
    ...services.flatMap(({ top, balance, leaves }) => [top, balance, ...leaves]),
    chain('KUBE-MARK-MASQ', ['-j MARK --set-xmark 0x4000/0x4000']),
  ]
}

test('IptablesTable writes very many chains in several restores, each after the chains that it needs', async () => {
  const memory = new MemoryIptables()
  const table = new IptablesTable('IPv4', memory, IPTABLES_LAYOUT)
  const signal = new AbortController().signal
  const items = manyChains(10, 1000)
  const ops = items.flatMap((item) => table.kind.diff('', item, undefined))
  assert.deepEqual(new Set(await table.apply(ops, signal)), new Set([undefined]))
  assert.ok(memory.inputs.length > 3 && memory.inputs.length < 8, `${memory.inputs.length} restores`)
  for (const input of memory.inputs) assert.ok(input.split('\n').length < 20_000)
  const found = await table.list('all', signal)
  assert.deepEqual(new Map(items.map((item) => [`nat ${item.chain}`, item])), found)
  const last = memory.inputs.at(-1) ?? ''
  assert.match(last, /-A KUBE-SERVICES /, 'the traffic comes when everything is there')
  assert.doesNotMatch(last, /KUBE-SEP/)
  // An existing chain keeps its rules until it is replaced.
  const changed = manyChains(10, 1001).flatMap((item) => table.kind.diff('', item, found.get(`nat ${item.chain}`)))
  memory.inputs.length = 0
  assert.deepEqual(new Set(await table.apply(changed, signal)), new Set([undefined]))
  assert.equal(memory.inputs.length, 1)
})

test('IptablesTable tries no further restore of many once one could not run', async () => {
  for (const instead of [
    () => ({ exitCode: 4, errorText: 'Another app is currently holding the xtables lock' }),
    () => {
      throw new CodedError('program-timeout', 'it was killed')
    },
  ]) {
    const memory = new MemoryIptables()
    memory.instead = instead
    const table = new IptablesTable('IPv4', memory, IPTABLES_LAYOUT)
    const ops = manyChains(10, 1000).flatMap((item) => table.kind.diff('', item, undefined))
    const outcomes = await table.apply(ops, new AbortController().signal)
    assert.equal(memory.inputs.length, 1)
    assert.ok(outcomes.every((outcome) => outcome !== undefined))
  }
})

test('IptablesTable leaves the rules of a chain that kubelet writes too while it needs none there', async () => {
  const memory = new MemoryIptables()
  const sync = new TableSync(new IptablesTable('IPv4', memory, IPTABLES_LAYOUT))
  const reconciler = new Reconciler([reconciled(sync)])
  const key = 'filter KUBE-FIREWALL'
  const rulesWhen = async (rules: readonly string[] | undefined): Promise<readonly string[] | undefined> => {
    sync.want(key, rules && { kind: 'chain', table: 'filter', chain: 'KUBE-FIREWALL', rules })
    const { failures } = await reconciler.pass({ signal: new AbortController().signal, now: () => 0, mayRemove: true })
    assert.deepEqual(failures, [])
    return memory.tables.get('filter')?.get('KUBE-FIREWALL')
  }
  const guard = '! -s 127.0.0.0/8 -d 127.0.0.0/8 -j DROP'
  assert.deepEqual(await rulesWhen([]), [])
  assert.deepEqual(await rulesWhen([guard]), [guard])
  assert.deepEqual(await rulesWhen([]), [guard])
  memory.run('filter', '-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP')
  sync.doubt('all')
  assert.equal((await rulesWhen([]))?.length, 2)
  assert.deepEqual(await rulesWhen([guard]), [guard])
})
