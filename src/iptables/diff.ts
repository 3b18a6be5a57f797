/**
 * What turns one chain or jump into another, and how that is written as commands. Pure.
 * What could break: a jump is there or not; where it stands, and how often, is left as it is (as in kube-proxy), so
 * `equal` looks at the copies but `diff` does not.
 */
import type { Direction } from '../sync/table.ts'
import type { IpFamily } from '../values/protocol.ts'
import { chainKey, isOnlyNew, jumpKey } from './layout.ts'
import { canonicalRule, sameRule, sameRules, targetOf } from './rule-text.ts'
import type { IptablesItem, IptablesOperation } from './types.ts'

export function diffIptables(
  desired: IptablesItem | undefined,
  live: IptablesItem | undefined,
): readonly IptablesOperation[] {
  if (desired === live) return []
  if (desired === undefined) return live === undefined ? [] : [removalOf(live)]
  const { table, chain } = desired
  if (desired.kind === 'jump')
    return live === undefined ? [{ kind: 'insert-jump', table, chain, rule: desired.rule }] : []
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

/** Key of the item that an operation is about. */
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
  return b.kind === 'jump' && a.copies === b.copies && sameRule(a.rule, b.rule)
}

export function stepIptables(op: IptablesOperation): IptablesItem | undefined {
  const { table, chain } = op
  switch (op.kind) {
    case 'write-chain':
      return { kind: 'chain', table, chain, rules: op.rules }
    case 'insert-jump':
      return { kind: 'jump', table, chain, rule: op.rule, copies: 1 }
    case 'delete-chain':
    case 'delete-jump':
      return undefined
  }
}

export function directionOf(op: IptablesOperation): Direction {
  return op.kind === 'write-chain' || op.kind === 'insert-jump' ? 'add' : 'remove'
}

/**
 * As an operator would type it: one command a line. A chain whose rules only come and go is not shown as a whole.
 * @param suffix of the program's name, `-legacy`
 */
export function formatIptablesOperation(op: IptablesOperation, family: IpFamily, suffix = ''): string {
  const program = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}${suffix} -t ${op.table}`
  switch (op.kind) {
    case 'insert-jump':
      return `${program} -I ${op.chain} ${op.rule}`
    case 'delete-jump':
      return Array.from({ length: op.copies }, () => `${program} -D ${op.chain} ${op.rule}`).join('\n')
    case 'delete-chain':
      return `${program} -F ${op.chain}\n${program} -X ${op.chain}`
    case 'write-chain':
      return chainCommands(op.before, op.rules)
        .map((command) => `${program} ${command.replace('CHAIN', () => op.chain)}`)
        .join('\n')
  }
}

/** Single steps from one list of rules to another, `CHAIN` standing for the chain's name. */
function chainCommands(before: readonly string[] | undefined, rules: readonly string[]): string[] {
  const appends = rules.map((rule) => `-A CHAIN ${rule}`)
  if (before === undefined) return ['-N CHAIN', ...appends]
  const wantedTexts = rules.map(canonicalRule)
  const liveTexts = before.map(canonicalRule)
  const [wantedSet, liveSet] = [new Set(wantedTexts), new Set(liveTexts)]
  const kept = liveTexts.filter((text) => wantedSet.has(text))
  const present = wantedTexts.filter((text) => liveSet.has(text))
  // A changed order, or a rule that is there twice, is more than single steps can tell.
  const isSimple = kept.length === present.length && kept.every((text, index) => text === present[index])
  if (!isSimple || wantedSet.size < rules.length) return ['-F CHAIN', ...appends]
  const gone = before.filter((_, index) => !wantedSet.has(liveTexts[index] ?? ''))
  const come = rules.flatMap((rule, index) => {
    if (liveSet.has(wantedTexts[index] ?? '')) return []
    return [index === rules.length - 1 ? `-A CHAIN ${rule}` : `-I CHAIN ${index + 1} ${rule}`]
  })
  return [...gone.map((rule) => `-D CHAIN ${rule}`), ...come]
}
