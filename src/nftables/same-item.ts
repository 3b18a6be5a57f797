/** Whether two items of the private table are the same in the kernel: by what nft prints of them. */
import type { IpFamily } from '../values/protocol.ts'
import { typeText } from './fields.ts'
import { canonicalStatement } from './canonical.ts'
import { statementText } from './statement-text.ts'
import type { NftAction, NftChain, NftElement, NftHook, NftItem, NftRule, NftSet, NftStatement } from './types.ts'

/** Whether two items are the same in the kernel. */
export function sameItem(a: NftItem, b: NftItem): boolean {
  if (a.family !== b.family) return false
  switch (a.kind) {
    case 'table':
      return b.kind === 'table' && a.isOwned === b.isOwned && a.isForeign === b.isForeign
    case 'set':
      return b.kind === 'set' && a.name === b.name && sameSet(a, b)
    case 'chain':
      return b.kind === 'chain' && a.name === b.name && sameChain(a, b)
    case 'element':
      return b.kind === 'element' && sameElement(a, b)
  }
}

/** Source and destination address have one type, so the fields of a set cannot be told apart. */
function sameSet(a: NftSet, b: NftSet): boolean {
  return (
    a.isMap === b.isMap && a.isForeign === b.isForeign && typeText(a.fields, a.family) === typeText(b.fields, b.family)
  )
}

function sameElement(a: NftElement, b: NftElement): boolean {
  return a.set === b.set && a.value === b.value && a.isForeign === b.isForeign && sameAction(a.action, b.action)
}

function sameAction(a: NftAction | undefined, b: NftAction | undefined): boolean {
  return a?.kind === b?.kind && targetOf(a) === targetOf(b)
}

function targetOf(action: NftAction | undefined): string {
  return action !== undefined && 'chain' in action ? action.chain : ''
}

function sameChain(a: NftChain, b: NftChain): boolean {
  return (
    a.isForeign === b.isForeign &&
    sameHook(a.hook, b.hook) &&
    a.rules.length === b.rules.length &&
    a.rules.every((rule, index) => sameRule(rule, b.rules[index], a.family))
  )
}

/** Whether two chains differ in no more than their rules. */
export function sameHook(a: NftHook | undefined, b: NftHook | undefined): boolean {
  return a?.type === b?.type && a?.hook === b?.hook && a?.priority === b?.priority
}

function sameRule(a: NftRule, b: NftRule | undefined, family: IpFamily): boolean {
  return (
    b !== undefined &&
    a.comment === b.comment &&
    a.statements.length === b.statements.length &&
    a.statements.every((statement, index) => sameStatement(statement, b.statements[index], family))
  )
}

function sameStatement(a: NftStatement, b: NftStatement | undefined, family: IpFamily): boolean {
  if (a === b) return true
  if (b === undefined) return false
  const [one, other] = [canonicalStatement(a, family), canonicalStatement(b, family)]
  // There may be ten thousand of them.
  if (one.kind === 'networks' && other.kind === 'networks')
    return one.cidrs.length === other.cidrs.length && one.cidrs.every((cidr, index) => cidr === other.cidrs[index])
  return statementText(one, family) === statementText(other, family)
}
