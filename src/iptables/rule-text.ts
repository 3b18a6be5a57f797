/**
 * One rule as text: how a word is written, and a canonical form that is equal for two spellings of
 * one rule. The canonical form ignores the order of matches, which would be wrong for matches that
 * count (limit, recent); none of our rules has one.
 */
import { sameList } from '../values/lists.ts'
import { PROTOCOL_NUMBER } from '../values/protocol.ts'
import { partsOf, type RuleOption, ruleOptions } from './rule-parts.ts'
import { iptablesError } from './types.ts'

/** Stands for rules of a chain of ours that could not be read, so that the chain is written again. */
export const UNREAD_RULE = '-m nft --unread'

/**
 * A word as iptables-save writes it: in double quotes unless it has only letters, digits, `_` and
 * `-`. Throws `iptables-unprintable` for control characters: iptables-restore ends a quoted word
 * with its line, without an error, and executes the next line as a rule.
 */
export function quoteWord(word: string): string {
  if (/\p{Cc}/u.test(word))
    throw iptablesError(
      'iptables-unprintable',
      `a word of a rule contains a control character: ${JSON.stringify(word)}`,
    )
  return quoted(word)
}

function quoted(word: string): string {
  return /^[\w-]+$/.test(word) ? word : `"${word.replace(/["\\']/g, '\\$&')}"`
}

/** Whether iptables-restore reads this as one line: a line feed ends it, and a zero cuts it off. */
export function isOneLine(rule: string): boolean {
  return !rule.includes('\n') && !rule.includes('\0')
}

const PROTOCOL_OF_NUMBER: ReadonlyMap<string, string> = new Map(
  Object.entries(PROTOCOL_NUMBER).map(([name, number]) => [String(number), name]),
)

/** 255.255.0.0 is 16. */
function prefixLengthOf(mask: string): string {
  if (!mask.includes('.')) return mask
  const bits = mask.split('.').map((octet) => Number(octet).toString(2).padStart(8, '0'))
  const ones = bits.join('').indexOf('0')
  return String(ones < 0 ? 32 : ones)
}

function sameSpelling(name: string, value: string): string {
  switch (name) {
    case '-s':
    case '-d': {
      const [address = '', mask] = value.split('/')
      return `${address}/${mask === undefined ? (address.includes(':') ? 128 : 32) : prefixLengthOf(mask)}`
    }
    case '-p':
    case '--vproto':
      return PROTOCOL_OF_NUMBER.get(value) ?? value
    case '--ctstate':
      return value.split(',').sort().join(',')
    case '--mark':
    case '--set-xmark': {
      const [mark, mask = '0xffffffff'] = value.split('/')
      return `${Number(mark)}/${Number(mask)}`
    }
    default:
      return value
  }
}

function formatOption({ negated, name, values }: RuleOption): string {
  const spelled = values.map((value) => quoted(sameSpelling(name, value)))
  return `${negated ? '! ' : ''}${[name, ...spelled].join(' ')}`
}

/** A text that is equal for rules that differ only in their spelling and the order of their matches. */
export function canonicalRule(rule: string): string {
  const { matches, target } = partsOf(rule)
  const inOrder = (options: readonly RuleOption[]): string[] => options.map(formatOption).sort()
  const loaded = matches
    .filter(({ name }) => name !== '')
    .map(({ name, options }) => [`-m ${quoted(name)}`, ...inOrder(options)])
  return [
    ...inOrder(matches.find(({ name }) => name === '')?.options ?? []),
    ...loaded.sort().flat(),
    ...(target === undefined
      ? []
      : [`${target.isGoto ? '-g' : '-j'} ${quoted(target.name)}`, ...inOrder(target.options)]),
  ].join(' ')
}

export function sameRule(a: string, b: string): boolean {
  return a === b || canonicalRule(a) === canonicalRule(b)
}

/**
 * Whether two chains do the same: their rules are equal in their order, or differ only in the order
 * of rules of which no two match one packet. kube-proxy writes the rules of all Services in an
 * order that changes from start to start.
 */
export function sameRules(a: readonly string[], b: readonly string[]): boolean {
  if (a === b) return true
  if (a.length !== b.length) return false
  return a.every((rule, index) => sameRule(rule, b[index] ?? '')) || isHarmlessOrder(a, b)
}

/** Whether `b` has the texts of `a` in another order, and rules that may match one packet in the same order. */
function isHarmlessOrder(a: readonly string[], b: readonly string[]): boolean {
  const sorted = b.toSorted()
  if (!a.toSorted().every((rule, index) => rule === sorted[index])) return false
  const [first, second] = [inGroups(a), inGroups(b)]
  return (
    first.size === second.size && Array.from(first).every(([group, rules]) => sameList(rules, second.get(group) ?? []))
  )
}

/**
 * Rules in groups, so that two rules of different groups match no packet in common or are on the
 * same side of a rule that matches any port. A group is a protocol and port, and one destination if
 * every rule of this port has one.
 */
function inGroups(rules: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const matches = rules.map(destinationOf)
  /** Ports with a rule for any destination, between the same two rules for any port. */
  const wide = new Set<string>()
  const parts: string[] = []
  let part = 0
  for (const { port, address } of matches) {
    if (port === undefined) part++
    parts.push(`${part} ${port ?? ''}`)
    if (address === undefined) wide.add(`${part} ${port ?? ''}`)
  }
  const groups = new Map<string, string[]>()
  for (const [index, rule] of rules.entries()) {
    const key = parts[index] ?? ''
    const group = wide.has(key) ? key : `${key} ${matches[index]?.address}`
    const before = groups.get(group)
    if (before === undefined) groups.set(group, [rule])
    else before.push(rule)
  }
  return groups
}

/** `tcp 80`, and `10.96.0.1/32`; undefined when the rule matches more than one of them. */
function destinationOf(rule: string): { readonly port: string | undefined; readonly address: string | undefined } {
  const options = ruleOptions(rule)
  const valueOf = (name: string): string | undefined => {
    const option = options.find((one) => one.name === name)
    const value = option?.values[0]
    return option?.negated === true || value === undefined ? undefined : sameSpelling(name, value)
  }
  const [protocol, port, address] = [valueOf('-p'), valueOf('--dport'), valueOf('-d')]
  return {
    port: protocol === undefined || port === undefined || !/^\d+$/.test(port) ? undefined : `${protocol} ${port}`,
    address: address !== undefined && /\/(?:32|128)$/.test(address) ? address : undefined,
  }
}

/** The target of a rule, which is a chain or a verdict; undefined when the rule only counts. */
export function targetOf(rule: string): string | undefined {
  return partsOf(rule).target?.name
}

const JUMP_OPTIONS: ReadonlySet<string> = new Set(['-m', '--comment', '--ctstate', '--state', '-j'])

/** Whether a rule has a target and matches nothing but the state of connections. */
export function isPlainJump(rule: string): boolean {
  return ruleOptions(rule).every(({ name, negated }) => !negated && JUMP_OPTIONS.has(name))
}

/** The set that a rule matches; undefined when it matches none. */
export function setOf(rule: string): string | undefined {
  return ruleOptions(rule).find(({ name }) => name === '--match-set')?.values[0]
}

/** The matches that a rule loads by name (`-m`). */
export function matchesOf(rule: string): readonly string[] {
  return partsOf(rule).matches.flatMap(({ name }) => (name === '' ? [] : name))
}
