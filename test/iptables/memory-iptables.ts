/**
 * Tables of iptables in memory behind iptables-save and iptables-restore as text: each table is
 * committed as a whole, a failure names its line, and it can fail, hang and be changed by others.
 * Like the program it refuses a rule that leads to a missing chain, a chain that exists or is in
 * use, and an unknown jump. A rule that begins with `nft ` was made by nft: its table cannot be
 * printed, and in its chain only what is in front of it can be deleted.
 */
import type { IptablesPrograms, NftAccess, RestoreResult } from '../../src/iptables/types.ts'
import type { NftRule } from '../../src/nftables/rule.ts'
import { CodedError } from '../../src/values/errors.ts'
import type { IpFamily } from '../../src/values/protocol.ts'
import { targetOf } from '../../src/iptables/rule-text.ts'

type Table = Map<string, string[]>

const BUILT_IN: Readonly<Record<string, readonly string[]>> = {
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
}
const TARGETS = ['ACCEPT', 'DROP', 'RETURN', 'MARK', 'MASQUERADE', 'REJECT', 'DNAT']

const isNative = (rule: string): boolean => rule.startsWith('nft ')

/** What iptables says about a rule that it cannot parse: it names no line. */
class ParseError extends Error {}

class LineError extends Error {
  readonly line: number

  constructor(line: number, message: string) {
    super(message)
    this.line = line
  }
}

export class MemoryIptables implements IptablesPrograms {
  readonly tables = new Map<string, Table>()
  readonly inputs: string[] = []
  saves = 0
  /** The reason why this line of input is refused; undefined lets it pass. */
  refuse: (line: string) => string | undefined = () => undefined
  /** Answers instead of the program, or throws. */
  instead: () => RestoreResult | undefined = () => undefined
  /** Errors name COMMIT instead of the rule, as the legacy back end does for what only the kernel refuses. */
  namesCommit = false
  /** iptables-save ends with an error instead of naming a table that it cannot print, and prints no table after it. */
  endsEarly = false
  /** Programs that refuse to print single chains. */
  refusesShow = false
  /** Rules by handle; `behind`: how many equal ones were behind them, which insertions at the top do not change. */
  readonly #places = new Map<bigint, { table: string; chain: string; rule: string; behind: number }>()

  constructor() {
    for (const [table, chains] of Object.entries(BUILT_IN))
      this.tables.set(table, new Map(chains.map((chain) => [chain, []])))
  }

  /** The text of the recordings: chains sorted, rules sorted by chain, no counters. */
  text(only?: string): string {
    const lines: string[] = []
    for (const [name, table] of this.tables) {
      if (only !== undefined && only !== name) continue
      if (Array.from(table.values()).some((rules) => rules.some(isNative))) {
        if (this.endsEarly) throw new CodedError('iptables-save-failed', 'Parsing nftables rule failed')
        lines.push(`# Table \`${name}' is incompatible, use 'nft' tool.`)
        continue
      }
      const chains = [...table.keys()].sort()
      lines.push(`*${name}`)
      for (const chain of chains) lines.push(`:${chain} ${BUILT_IN[name]?.includes(chain) ? 'ACCEPT' : '-'}`)
      for (const chain of chains) for (const rule of table.get(chain) ?? []) lines.push(`-A ${chain} ${rule}`)
      lines.push('COMMIT')
    }
    return `${lines.join('\n')}\n`
  }

  async save(_family: IpFamily): Promise<string> {
    this.saves++
    return this.text()
  }

  /** The other ways to these tables. */
  readonly access: NftAccess = {
    saveTable: async (_family, table) => this.text(table),
    showChains: async (_family, name, chains) => {
      const table = this.tables.get(name)
      const lines = chains.flatMap((chain) => {
        const rules = table?.get(chain)
        if (this.refusesShow || rules === undefined || rules.some(isNative))
          throw new CodedError('iptables-save-failed', `chain ${chain} is incompatible`)
        const head = BUILT_IN[name]?.includes(chain) === true ? `-P ${chain} ACCEPT` : `-N ${chain}`
        return [head, ...rules.map((rule) => `-A ${chain} ${rule}`)]
      })
      return `${lines.join('\n')}\n`
    },
    chains: async (_family, name) =>
      Array.from(this.tables.get(name)?.keys() ?? [], (chain) => ({
        name: chain,
        policy: 'accept' as const,
        isBase: BUILT_IN[name]?.includes(chain) === true,
      })),
    rules: async ({ table, chain }) => this.#nftRules(table).filter((rule) => rule.chain === (chain ?? rule.chain)),
    visitRules: async ({ table }, visit) => {
      for (const rule of this.#nftRules(table)) visit(rule)
    },
    deleteRules: async (_family, rules) => {
      for (const { handle } of rules) {
        const place = this.#places.get(handle)
        const there = this.tables.get(place?.table ?? '')?.get(place?.chain ?? '') ?? []
        const equal = there.flatMap((rule, index) => (rule === place?.rule ? index : []))
        const at = equal.at(-1 - (place?.behind ?? 0))
        if (at !== undefined) there.splice(at, 1)
      }
    },
  }

  #nftRules(name: string): NftRule[] {
    return Array.from(this.tables.get(name) ?? []).flatMap(([chain, rules]) =>
      rules.map((rule, index) => {
        const handle = BigInt(this.#places.size + 1)
        const behind = rules.slice(index + 1).filter((one) => one === rule).length
        this.#places.set(handle, { table: name, chain, rule, behind })
        return { table: name, chain, handle, ...contentOf(rule) }
      }),
    )
  }

  async restore(_family: IpFamily, input: string): Promise<RestoreResult> {
    this.inputs.push(input)
    const instead = this.instead()
    if (instead !== undefined) return instead
    const lines = input.split('\n')
    let name = ''
    let draft: Table = new Map()
    for (const [index, line] of lines.entries()) {
      try {
        if (line.startsWith('*')) {
          name = line.slice(1)
          draft = new Map([...(this.tables.get(name) ?? [])].map(([chain, rules]) => [chain, [...rules]]))
        } else if (line === 'COMMIT') {
          for (const rules of draft.values()) for (const rule of rules) checkTarget(draft, rule, index + 1)
          this.tables.set(name, draft)
        } else if (line !== '') this.#run(draft, line, index + 1)
      } catch (error) {
        if (error instanceof ParseError)
          return { exitCode: 3, errorText: 'iptables-restore v1.8.9 (test): Parsing nftables rule failed\n' }
        if (!(error instanceof LineError)) throw error
        const at = this.namesCommit ? lines.indexOf('COMMIT', index) + 1 : error.line
        return {
          exitCode: 1,
          errorText: `iptables-restore v1.8.9 (test): ${error.message}\nError occurred at line: ${at}\n`,
        }
      }
    }
    return { exitCode: 0, errorText: '' }
  }

  /** What another program does: `-I INPUT -j MY-CHAIN`. */
  run(table: string, command: string): void {
    const [verb = '', chain = '', ...rest] = command.split(' ')
    const rules = this.tables.get(table)
    if (rules === undefined) throw new Error(`no table ${table}`)
    if (verb === '-F') rules.set(chain, [])
    else if (verb === '-N') rules.set(chain, [])
    else this.#run(rules, [verb, chain, ...rest].join(' ').replace(/-s (\d+(\.\d+){3})(?= |$)/, '-s $1/32'), 0)
  }

  #run(table: Table, line: string, number: number): void {
    const refusal = this.refuse(line)
    if (refusal !== undefined) throw new LineError(number, refusal)
    const [verb = '', chain = '', ...rest] = line.split(' ')
    const rule = rest.join(' ')
    if (verb.startsWith(':')) table.set(verb.slice(1), [])
    else {
      const rules = table.get(chain)
      if (rules === undefined) throw new LineError(number, `no chain ${chain}`)
      if (verb === '-A') rules.push(rule)
      else if (verb === '-I') rules.unshift(rule)
      else if (verb === '-D') {
        const at = rules.indexOf(rule)
        if (rules.slice(0, at < 0 ? undefined : at).some(isNative)) throw new ParseError()
        if (at < 0) throw new LineError(number, 'does a matching rule exist in that chain?')
        rules.splice(at, 1)
      } else if (verb === '-X') {
        const used = [...table.values()].some((all) => all.some((one) => targetOf(one) === chain))
        if (used || rules.length > 0) throw new LineError(number, `CHAIN_DEL failed: chain ${chain}`)
        table.delete(chain)
      } else throw new LineError(number, `unknown ${verb}`)
    }
  }
}

/** As the kernel has it. */
function contentOf(rule: string): Omit<NftRule, 'table' | 'chain' | 'handle'> {
  const words = rule.split(' ')
  const target = isNative(rule) ? (words[words.indexOf('jump') + 1] ?? '') : (targetOf(rule) ?? '')
  const matches = Array.from(rule.matchAll(/-m (\S+)/g), ([, name = '']) => name)
  const plain = rule.replace(/-m comment --comment ("[^"]*"|\S+) ?|-m conntrack --ctstate NEW ?/g, '')
  return {
    verdict: target.startsWith('KUBE-') ? { kind: 'jump', chain: target } : { kind: 'accept', chain: '' },
    isExact: !isNative(rule),
    hasOtherEffect: false,
    isPlain: /^-j \S+$/.test(plain),
    matches,
    comment: /--comment "?([^"]*?)"?(?: -|$)/.exec(rule)?.[1] ?? '',
  }
}

function checkTarget(table: Table, rule: string, line: number): void {
  const target = isNative(rule) ? undefined : targetOf(rule)
  if (target !== undefined && !TARGETS.includes(target) && !table.has(target))
    throw new LineError(line, `Chain '${target}' does not exist`)
}
