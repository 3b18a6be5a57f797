/** Statements and rules as `nft list table` prints them, and as `nft` takes them. */
import type { IpFamily } from '../values/protocol.ts'
import { canonicalStatement } from './canonical.ts'
import { NFT_FAMILY, type NftAction, type NftRule, type NftStatement, type PacketField } from './types.ts'

/** `ip saddr 10.0.0.0/8 return comment "inside"` */
export function ruleText({ statements, comment }: NftRule, family: IpFamily): string {
  const texts = statements.map((statement) => statementText(statement, family))
  if (comment !== undefined) texts.push(`comment "${printable(comment)}"`)
  return texts.join(' ')
}

/** nft has no way to write these in a text; another program can still have written them. */
function printable(text: string): string {
  return text.replaceAll(/["\p{Cc}]/gu, '?')
}

/** The name of a set or chain. The kernel takes any characters, nft only these; others would begin a command. */
export function nameText(name: string): string {
  return name.replaceAll(/[^\w./-]/g, '?')
}

/** `ip saddr 10.0.0.0/8` */
export function statementText(given: NftStatement, family: IpFamily): string {
  const statement = canonicalStatement(given, family)
  const ip = NFT_FAMILY[family]
  switch (statement.kind) {
    case 'interface':
      return `iifname ${not(statement)}"${printable(statement.name)}"`
    case 'network':
      return `${ip} ${statement.field} ${not(statement)}${statement.cidr}`
    case 'networks':
      return `${ip} ${statement.field} { ${statement.cidrs.join(', ')} }`
    case 'protocol':
      return `meta l4proto ${statement.protocol}`
    case 'new-connection':
      return 'ct state new'
    case 'mark':
      return `meta mark ${markText(statement)}`
    case 'lookup':
      return `${fieldsText(statement.fields, family)} ${not(statement)}@${nameText(statement.set)}`
    case 'verdict-map':
      return `${fieldsText(statement.fields, family)} vmap @${nameText(statement.map)}`
    case 'set-mark':
      return `meta mark set meta mark ${statement.to === 'set' ? '|' : '^'} ${hex(statement.mask)}`
    case 'keep-destination':
      return `dnat to ${ip} daddr`
    case 'masquerade':
      return statement.isFullyRandom ? 'masquerade fully-random' : 'masquerade'
    case 'reject':
      return 'reject'
    case 'verdict':
      return actionText(statement.action)
    case 'foreign':
      return `(${printable(statement.expression)})`
  }
}

/** `goto do-mark` */
export function actionText(action: NftAction): string {
  return 'chain' in action ? `${action.kind} ${nameText(action.chain)}` : action.kind
}

function not({ isNot }: { readonly isNot?: true }): string {
  return isNot === true ? '!= ' : ''
}

/** `& 0x00004000 == 0x00004000`; where the mask begins with the highest bit, nft prints it as a network. */
function markText(statement: Extract<NftStatement, { kind: 'mark' }>): string {
  const mask = hex(statement.mask)
  const bits = Math.clz32(~statement.mask)
  const isPrefix = bits > 0 && (statement.mask << bits) >>> 0 === 0
  if (isPrefix) return `${not(statement)}${mask}/${bits}`
  return `& ${mask} ${statement.isNot === true ? '!=' : '=='} ${mask}`
}

/** Eight digits, as nft prints a mark. */
function hex(value: number): string {
  return `0x${(value >>> 0).toString(16).padStart(8, '0')}`
}

/** `ip daddr . meta l4proto . th dport` */
function fieldsText(fields: readonly PacketField[], family: IpFamily): string {
  return fields.map((field) => fieldText(field, family)).join(' . ')
}

function fieldText(field: PacketField, family: IpFamily): string {
  if (field === 'l4proto') return 'meta l4proto'
  return field === 'dport' ? 'th dport' : `${NFT_FAMILY[family]} ${field}`
}
