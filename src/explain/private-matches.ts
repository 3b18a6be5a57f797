/**
 * Whether a packet has what a statement of the private table asks for. A statement that does
 * something with the packet is none of these.
 */
import { ruleText, statementText } from '../nftables/statement-text.ts'
import type { NftRule, NftStatement } from '../nftables/types.ts'
import { type Cidr, contains, parseCidr } from '../values/cidr.ts'
import { FALSE, type Judgement, TRUE, unknown } from './judgement.ts'
import type { PrivateRules } from './private-rules.ts'
import type { PacketState } from './state.ts'

/** Expressions that a packet passes unchanged, by the kernel's names. */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set(['counter', 'last', 'log'])

const is = (matches: boolean, { isNot }: { readonly isNot?: true } = {}): Judgement =>
  matches === (isNot === true) ? FALSE : TRUE

/** undefined: the statement is no condition. */
export function judgeStatement(
  statement: NftStatement,
  state: PacketState,
  rules: PrivateRules,
): Judgement | undefined {
  switch (statement.kind) {
    case 'interface':
      return is(isInterface(state.inInterface, statement.name), statement)
    case 'network':
      return is(isInside(statement, state[statement.field === 'saddr' ? 'source' : 'destination']), statement)
    case 'networks':
      return is(isInside(statement, state.source))
    case 'protocol':
      return is(state.protocol === statement.protocol)
    case 'new-connection':
      return is(state.isTracked && state.connection === 'NEW')
    case 'mark':
      return is((state.mark & statement.mask) >>> 0 === statement.mask >>> 0, statement)
    case 'lookup': {
      const found = rules.find(statement.set, statement.fields, state)
      if (found.kind === 'unknown') return unknown(`the set ${statement.set}, which kube-ipvs never made so`)
      const isFound = found.kind === 'found'
      if (isFound === (statement.isNot === true)) return FALSE
      return { kind: 'yes', sets: [{ name: statement.set, entry: isFound ? found.value : undefined }] }
    }
    case 'foreign':
      if (WITHOUT_EFFECT.has(statement.expression)) return TRUE
      return unknown(`"${statement.expression}", which kube-ipvs never writes: see "nft list table ${rules.name}"`)
    default:
      return undefined
  }
}

/** A name with `*` at its end is a prefix. Where a packet has no interface, its name is empty. */
function isInterface(name: string, wanted: string): boolean {
  return wanted.endsWith('*') ? name.startsWith(wanted.slice(0, -1)) : name === wanted
}

export type Networks = Extract<NftStatement, { kind: 'network' | 'networks' }>

/** Those of a statement, each taken apart once. */
const parsed = new WeakMap<Networks, readonly Cidr[]>()

function isInside(statement: Networks, address: string): boolean {
  let cidrs = parsed.get(statement)
  if (cidrs === undefined) {
    const texts = statement.kind === 'network' ? [statement.cidr] : statement.cidrs
    parsed.set(statement, (cidrs = texts.flatMap((text) => networkOf(text) ?? [])))
  }
  return cidrs.some((cidr) => contains(cidr, address))
}

function networkOf(text: string): Cidr | undefined {
  return parseCidr(text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`)
}

/** How many comparisons a statement takes. */
export function workOf(statement: NftStatement): number {
  return statement.kind === 'networks' ? 1 + statement.cidrs.length : 1
}

/** Networks of a rule that are printed. */
const MAX_NETWORKS = 8

/** `ip saddr 198.51.100.0/24`, of a long list its beginning. */
export function networksText(statement: Networks, rules: PrivateRules): string {
  const networks = statementText(statement, rules.family).split(', ')
  const more = networks.length - MAX_NETWORKS
  return more > 0 ? `${networks.slice(0, MAX_NETWORKS).join(', ')}, and ${more} more }` : networks.join(', ')
}

const texts = new WeakMap<NftRule, string>()

/** The rule as `nft list table` prints it. */
export function textOf(rule: NftRule, { family }: PrivateRules): string {
  let text = texts.get(rule)
  if (text === undefined) texts.set(rule, (text = ruleText(rule, family)))
  return text
}
