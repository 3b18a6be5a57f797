/**
 * What doctor reads of rules of other programs beside those of iptables: rules that nft made in its
 * tables, and rules that may take packets of Services before ours do. The program nft, where it is
 * installed, names them in its own words.
 * @impure
 */
import type { NftRule } from '../nftables/rule.ts'
import { type AllRules, IPTABLES_TABLES } from '../iptables/read-all-rules.ts'
import { findRival, portsTaken, type RivalSearch } from '../iptables/rival-rules.ts'
import { canonicalRule, targetOf } from '../iptables/rule-text.ts'
import { CLEANUP_LAYOUT } from '../modes/leftovers/layouts.ts'
import { modesIn, type ProxyMode } from '../modes/modes-in-kernel.ts'
import type { Look } from '../modes/look/look.ts'
import { otherNatChains } from '../modes/look/nat-chains.ts'
import { USUAL_NAT_PRIORITY } from '../nftables/nat-order.ts'
import { allRulesOf } from '../modes/nft-access.ts'
import { findProgram, runProgram, searchPath } from '../node/programs.ts'
import { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { RivalFact, RulesFact } from './rule-facts.ts'
import type { NodeFacts } from './facts.ts'
import type { Seen } from './seen.ts'
import { summarizeRules } from './rules-summary.ts'

type NftRulesFact = NodeFacts['nftRules'] extends Seen<infer T> ? T : never

export interface ForeignRules {
  readonly rules: readonly RulesFact[]
  readonly nftRules: NftRulesFact
  readonly rivals: readonly RivalFact[]
  /** The modes whose rules these are. */
  readonly modes: readonly ProxyMode[]
}

const NFT_FAMILY = { IPv4: 'ip', IPv6: 'ip6' } as const
const MAX_RULES = 100
const MAX_RIVALS = 40
const MAX_PORTS = 20
const MAX_TAKES = 5

/** The rules of both back ends. Rejects when nothing can be read. */
export async function readForeignRules(
  look: Pick<Look, 'families' | 'iptables' | 'otherIptables'>,
  signal: AbortSignal,
): Promise<ForeignRules> {
  const chosen = await look.iptables(signal)
  const other = await look.otherIptables(signal)
  const rules: RulesFact[] = []
  const unprinted: string[] = []
  const foreign: NftRulesFact['rules'][number][] = []
  const rivals: RivalFact[] = []
  const modes: ProxyMode[] = []
  const failures: unknown[] = []
  const words = new NftWords(signal)
  for (const iptables of other === undefined ? [chosen] : [chosen, other]) {
    const { choice } = iptables
    for (const family of look.families) {
      if (choice.unusable[family] !== undefined || choice.programs[family] === undefined) continue
      try {
        const all = await allRulesOf(iptables, family, signal)
        modes.push(...modesIn({ ...NO_VIRTUAL_IPS, saved: { [family]: all.tables } }))
        rules.push(summarizeRules(all.tables, choice.mode, family, CLEANUP_LAYOUT))
        unprinted.push(...all.unprinted.map((table) => `${NFT_FAMILY[family]} ${table}`))
        for (const rule of all.foreign) if (foreign.length < MAX_RULES) foreign.push(await words.factOf(family, rule))
        rivals.push(...rivalsOf(all, family, choice.mode, iptables === chosen))
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof CodedError)) throw error
        failures.push(error)
      }
    }
  }
  if (rules.length === 0 && failures.length > 0) throw failures[0]
  rivals.push(...(await words.rivals()))
  const nftRules = { unprinted: unprinted.slice(0, 10), rules: foreign }
  return { rules, nftRules, rivals: rivals.slice(0, MAX_RIVALS), modes }
}

const NO_VIRTUAL_IPS = { device: undefined, routes: new Map<string, unknown>() }

const OURS = 'KUBE-SERVICES'

/** Rules in front of our jumps; in the back end that is not in use, all that take packets. */
function rivalsOf({ tables }: AllRules, family: IpFamily, backEnd: 'nft' | 'legacy', isInUse: boolean): RivalFact[] {
  const nat = new Map(Array.from(tables.get('nat') ?? [], ([chain, { rules }]) => [chain, rules]))
  return (['PREROUTING', 'OUTPUT'] as const).flatMap((chain): RivalFact[] => {
    const own = nat.get(chain) ?? []
    const ours = own.findIndex((rule) => targetOf(rule) === OURS)
    // Without our jump no proxy runs, and a start inserts it at the top.
    if (isInUse && ours < 0) return []
    const owns = (name: string): boolean => CLEANUP_LAYOUT.owns('nat', name)
    const end = isInUse ? ours : own.length
    const search: RivalSearch = findRival(nat, chain, end, owns, () => true)
    const { rival } = search
    if (rival === undefined) return []
    const takes = rival.takes.filter((rule) => !/ -j (?:RETURN|ACCEPT)$/.test(canonicalRule(rule)))
    const named = takes.length === 0 ? rival.takes : takes
    return [
      {
        program: `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backEnd}`,
        chain,
        priority: USUAL_NAT_PRIORITY,
        rule: rival.rule,
        takes: named.slice(0, MAX_TAKES),
        ports: portsTaken(named).slice(0, MAX_PORTS),
        isInUse,
      },
    ]
  })
}

/** The program nft: rules in its own words. */
class NftWords {
  readonly #program = findProgram('nft', searchPath(process.env['PATH']))
  readonly #signal: AbortSignal
  /** Rules by handle, by chain. */
  readonly #chains = new Map<string, ReadonlyMap<string, string>>()

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  async factOf(family: IpFamily, { table, chain, handle }: NftRule): Promise<NftRulesFact['rules'][number]> {
    const place = ['chain', NFT_FAMILY[family], table, chain]
    const key = place.join(' ')
    // readAllRules reads no other table.
    const name = IPTABLES_TABLES.find((one) => one === table) ?? 'filter'
    const rules = this.#chains.get(key) ?? (await this.#list(place))
    this.#chains.set(key, rules)
    const rule = rules.get(String(handle)) ?? ''
    return { family: NFT_FAMILY[family], table: name, chain, handle: Number(handle), rule }
  }

  /** Base chains of type nat beside iptables that translate destinations: portmap makes such chains, too. */
  async rivals(): Promise<readonly RivalFact[]> {
    const found: RivalFact[] = []
    for (const { family, table, chain, priority } of await otherNatChains(this.#signal)) {
      const rules = await this.#list(['table', family, table])
      const takes = Array.from(rules.values()).filter((rule) => /\b(?:dnat|redirect)\b/.test(rule))
      if (rules.size > 0 && takes.length === 0) continue
      const ports = new Set(takes.map((rule) => portOf(rule)))
      found.push({
        program: 'nft',
        chain: `${family} ${table} ${chain}`,
        priority,
        rule: '',
        takes: takes.slice(0, MAX_TAKES),
        ports: Array.from(ports).sort().slice(0, MAX_PORTS),
        isInUse: false,
      })
    }
    return found
  }

  /** Empty without the program, or when it fails. */
  async #list(place: readonly string[]): Promise<ReadonlyMap<string, string>> {
    if (this.#program === undefined) return new Map()
    try {
      const call = { program: this.#program, args: ['-a', 'list', ...place], signal: this.#signal }
      const { output } = await runProgram(call)
      return rulesByHandle(output)
    } catch {
      this.#signal.throwIfAborted()
      return new Map()
    }
  }
}

/** The rules that `nft -a list chain` prints, by their handles. */
export function rulesByHandle(output: string): ReadonlyMap<string, string> {
  return new Map(
    Array.from(output.matchAll(/^\t\t(.*\S)\s+# handle (\d+)$/gm), ([, rule = '', handle = '']) => [handle, rule]),
  )
}

/** `443/tcp` of `tcp dport 443 dnat to 10.244.0.5:443`. */
export function portOf(rule: string): string {
  const [, protocol = '', port] = /\b(tcp|udp|sctp|th) dport (\{[^}]*\}|\S+)/.exec(rule) ?? []
  return port === undefined
    ? 'any port'
    : `${port.replace(/[{} ]/g, '')}/${protocol === 'th' ? 'any protocol' : protocol}`
}
