/**
 * The operations that turn one chain or jump into another, and the commands that they print as.
 * Like kube-proxy we leave copies of a jump as they are, so `sameItem` compares them and
 * `diffIptables` does not; its place matters only where a rule in front of it takes packets.
 */
import type { Direction, TableKind, TableName } from '../sync/table.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import { chainKey, isOnlyNew, jumpKey } from './layout.ts'
import { UNREAD_RULE } from './rule-text.ts'
import { canonicalRule, sameRule, sameRules, targetOf } from './rule-text.ts'
import type { IptablesItem, IptablesOperation } from './types.ts'

export function diffIptables(
  desired: IptablesItem | undefined,
  live: IptablesItem | undefined,
): readonly IptablesOperation[] {
  if (desired === live) return []
  if (desired === undefined) return live === undefined ? [] : [removalOf(live)]
  const { table, chain } = desired
  if (desired.kind === 'jump') {
    if (live === undefined) return [{ kind: 'insert-jump', table, chain, rule: desired.rule }]
    if (live.kind !== 'jump' || live.behind === undefined) return []
    return [{ kind: 'move-jump', table, chain, rule: live.rule, copies: live.copies, behind: live.behind }]
  }
  const before = live?.kind === 'chain' ? live.rules : undefined
  if (before !== undefined && sameRules(before, desired.rules)) return []
  return [{ kind: 'write-chain', table, chain, before, rules: desired.rules }]
}

function removalOf(live: IptablesItem): IptablesOperation {
  const { table, chain } = live
  return live.kind === 'chain'
    ? { kind: 'delete-chain', table, chain }
    : { kind: 'delete-jump', table, chain, rule: live.rule, copies: live.copies }
}

/** The key of the item that an operation changes. */
export function keyOf(op: IptablesOperation): string {
  const { table, chain } = op
  if (op.kind === 'write-chain' || op.kind === 'delete-chain') return chainKey(table, chain)
  const place = { table, from: chain, to: targetOf(op.rule) ?? '' }
  return jumpKey(isOnlyNew(op.rule) ? { ...place, onlyNew: true } : place)
}

export function sameItem(a: IptablesItem, b: IptablesItem): boolean {
  if (a === b) return true
  if (a.table !== b.table || a.chain !== b.chain) return false
  if (a.kind === 'chain') return b.kind === 'chain' && sameRules(a.rules, b.rules)
  return b.kind === 'jump' && a.copies === b.copies && a.behind?.rule === b.behind?.rule && sameRule(a.rule, b.rule)
}

function stepIptables(op: IptablesOperation): IptablesItem | undefined {
  const { table, chain } = op
  switch (op.kind) {
    case 'write-chain':
      return { kind: 'chain', table, chain, rules: op.rules }
    case 'insert-jump':
    case 'move-jump':
      return { kind: 'jump', table, chain, rule: op.rule, copies: 1 }
    case 'delete-chain':
    case 'delete-jump':
      return undefined
  }
}

function directionOf(op: IptablesOperation): Direction {
  return op.kind === 'delete-jump' || op.kind === 'delete-chain' ? 'remove' : 'add'
}

/**
 * The commands an operator would type, one a line. Single rules that are added or removed are shown
 * as such, else the whole chain.
 * @param suffix of the program's name, `-legacy`
 */
export function formatIptablesOperation(op: IptablesOperation, family: IpFamily, suffix = ''): string {
  const program = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}${suffix} -t ${op.table}`
  switch (op.kind) {
    case 'insert-jump':
      return `${program} -I ${op.chain} ${op.rule}`
    case 'move-jump':
      return [...deletions(op), `-I ${op.chain} ${op.rule}`].map((command) => `${program} ${command}`).join('\n')
    case 'delete-jump':
      return deletions(op)
        .map((command) => `${program} ${command}`)
        .join('\n')
    case 'delete-chain':
      return `${program} -F ${op.chain}\n${program} -X ${op.chain}`
    case 'write-chain':
      return chainCommands(op.before, op.rules)
        .map((command) => `${program} ${command.replace('CHAIN', () => op.chain)}`)
        .join('\n')
  }
}

/** `-D CHAIN RULE` for each copy of a jump. */
export function deletions(op: IptablesOperation & { readonly copies: number; readonly rule: string }): string[] {
  return Array.from({ length: op.copies }, () => `-D ${op.chain} ${op.rule}`)
}

/** Commands that turn one list of rules into another; `CHAIN` stands for the chain's name. */
function chainCommands(before: readonly string[] | undefined, rules: readonly string[]): string[] {
  const appends = rules.map((rule) => `-A CHAIN ${rule}`)
  if (before === undefined) return ['-N CHAIN', ...appends]
  if (before.includes(UNREAD_RULE)) return ['-F CHAIN', ...appends]
  const wantedTexts = rules.map(canonicalRule)
  const liveTexts = before.map(canonicalRule)
  const [wantedSet, liveSet] = [new Set(wantedTexts), new Set(liveTexts)]
  const kept = liveTexts.filter((text) => wantedSet.has(text))
  const present = wantedTexts.filter((text) => liveSet.has(text))
  // A changed order, or a rule that is wanted twice, cannot be shown as additions and removals of single rules.
  const isSimple = kept.length === present.length && kept.every((text, index) => text === present[index])
  if (!isSimple || wantedSet.size < rules.length) return ['-F CHAIN', ...appends]
  const removed = before.filter((_, index) => !wantedSet.has(liveTexts[index] ?? ''))
  const added = rules.flatMap((rule, index) => {
    if (liveSet.has(wantedTexts[index] ?? '')) return []
    return [index === rules.length - 1 ? `-A CHAIN ${rule}` : `-I CHAIN ${index + 1} ${rule}`]
  })
  return [...removed.map((rule) => `-D CHAIN ${rule}`), ...added]
}

/** Names of the tables, by family. */
const CHAIN_TABLES = { IPv4: 'chains-IPv4', IPv6: 'chains-IPv6' } as const

/** The family of a table of chains; undefined for any other table. */
export function familyOfChains(table: TableName): IpFamily | undefined {
  return IP_FAMILIES.find((family) => CHAIN_TABLES[family] === table)
}

/**
 * The chains and jumps of one family. Keys: `nat KUBE-SERVICES` for a chain with all its rules,
 * `nat OUTPUT KUBE-SERVICES` for a jump.
 * @param suffix of the program's name in commands, `-legacy`
 * @param wanted what is wanted of an item where the kernel has `live`
 */
export function chainKind(
  family: IpFamily,
  suffix = '',
  wanted = (desired: IptablesItem | undefined, _live: IptablesItem | undefined) => desired,
): TableKind<IptablesItem, IptablesOperation> {
  return {
    name: CHAIN_TABLES[family],
    key: keyOf,
    diff: (_key, desired, live) => diffIptables(wanted(desired, live), live),
    equal: sameItem,
    step: (_live, op) => stepIptables(op),
    direction: directionOf,
    text: (op) => formatIptablesOperation(op, family, suffix),
  }
}
