/** Items of the private table as nft prints and takes them, operations as commands, and the whole table. */
import type { IpFamily } from '../values/protocol.ts'
import { shellQuoted } from '../values/quote.ts'
import { typeText } from './fields.ts'
import { actionText, nameText, ruleText } from './statement-text.ts'
import {
  NFT_FAMILY,
  type NftChain,
  type NftElement,
  type NftHook,
  type NftItem,
  type NftOperation,
  type NftSet,
  PRIVATE_TABLE,
  type PrivateTable,
} from './types.ts'

/**
 * `nft add element ip kube-ipvs vips '{ 10.96.0.1 }'`: what an operator can type. nft refuses a name
 * with other characters than its own, for which there is a question mark.
 */
export function operationText(op: NftOperation): string {
  const commands = commandsOf(op)
  const [only, ...more] = commands
  return only !== undefined && more.length === 0 ? `nft ${quoted(only)}` : `nft ${shellQuoted(commands.join('; '))}`
}

/** The shell needs quotes where braces begin, or a question mark, which it would look for among files. */
function quoted(command: string): string {
  const special = command.search(/[{?]/)
  return special < 0 ? command : `${command.slice(0, special)}${shellQuoted(command.slice(special))}`
}

function commandsOf({ kind, item, hadHook }: NftOperation): readonly string[] {
  switch (item.kind) {
    case 'table':
      // For a table that is there it sets its flags.
      return [kind === 'delete' ? `delete table ${tableName(item)}` : `add table ${tableName(item)}${flagsText(item)}`]
    case 'set':
      return setCommands(kind, item)
    case 'chain':
      return chainCommands(kind, item, hadHook === true)
    case 'element':
      return elementCommands(kind, item)
  }
}

function tableName({ family }: { readonly family: IpFamily }): string {
  return `${NFT_FAMILY[family]} ${PRIVATE_TABLE}`
}

function flagsText({ isOwned }: PrivateTable): string {
  return isOwned ? ' { flags owner, persist; }' : ''
}

function setCommands(kind: NftOperation['kind'], set: NftSet): readonly string[] {
  const what = `${set.isMap ? 'map' : 'set'} ${tableName(set)} ${nameText(set.name)}`
  const remove = `delete ${what}`
  const add = `add ${what} { type ${setTypeText(set)}; }`
  if (kind === 'add') return [add]
  return kind === 'delete' ? [remove] : [remove, add]
}

/** `ipv4_addr . inet_proto . inet_service : verdict` */
function setTypeText({ fields, family, isMap }: NftSet): string {
  return `${typeText(fields, family)}${isMap ? ' : verdict' : ''}`
}

function chainCommands(kind: NftOperation['kind'], chain: NftChain, hadHook: boolean): readonly string[] {
  const place = `${tableName(chain)} ${nameText(chain.name)}`
  const what = `chain ${place}`
  const rules = chain.rules.map((rule) => `add rule ${place} ${ruleText(rule, chain.family)}`)
  const hook = chain.hook === undefined ? '' : ` { ${hookText(chain.hook)} }`
  const remove = [`flush ${what}`, `delete ${what}`]
  if (kind === 'delete') return remove
  if (hadHook) return [...remove, `add ${what}`, ...rules]
  return [`add ${what}${hook}`, ...(kind === 'replace' ? [`flush ${what}`] : []), ...rules]
}

function elementCommands(kind: NftOperation['kind'], element: NftElement): readonly string[] {
  const place = `${tableName(element)} ${nameText(element.set)}`
  const remove = `delete element ${place} { ${element.value} }`
  const add = `add element ${place} { ${elementText(element)} }`
  if (kind === 'add') return [add]
  return kind === 'delete' ? [remove] : [remove, add]
}

/** `10.96.0.1 . tcp . 80 : goto do-mark` */
export function elementText({ value, action }: NftElement): string {
  return action === undefined ? value : `${value} : ${actionText(action)}`
}

/** `type filter hook input priority filter; policy accept;` */
function hookText({ type, hook, priority }: NftHook): string {
  return `type ${type} hook ${hook} priority ${priorityText(priority, hook)}; policy accept;`
}

/** Priorities that nft has names for, some of them at one hook only. */
const PRIORITIES: readonly (readonly [name: string, priority: number, hook?: NftHook['hook']])[] = [
  ['raw', -300],
  ['mangle', -150],
  ['dstnat', -100, 'prerouting'],
  ['filter', 0],
  ['security', 50],
  ['srcnat', 100, 'postrouting'],
]
/** nft prints a name for a priority that is no further from it. */
const REACH = 10

function priorityText(priority: number, hook: NftHook['hook']): string {
  for (const [name, number, only] of PRIORITIES) {
    const distance = priority - number
    if ((only !== undefined && only !== hook) || Math.abs(distance) > REACH) continue
    if (distance === 0) return name
    return `${name} ${distance < 0 ? '-' : '+'} ${Math.abs(distance)}`
  }
  return String(priority)
}

/** The table of one family as `nft list table` prints it; '' when there is none. `nft -f` takes it. */
export function tableText(items: Iterable<NftItem>, family: IpFamily): string {
  const sets: NftSet[] = []
  const chains: NftChain[] = []
  const elements = new Map<string, string[]>()
  let table: PrivateTable | undefined
  for (const item of items) {
    if (item.family !== family) continue
    if (item.kind === 'table') table = item
    else if (item.kind === 'set') sets.push(item)
    else if (item.kind === 'chain') chains.push(item)
    else {
      const texts = elements.get(item.set) ?? []
      texts.push(elementText(item))
      elements.set(item.set, texts)
    }
  }
  if (table === undefined) return ''
  const blocks = [...sets.map((set) => setText(set, elements.get(set.name) ?? [])), ...chains.map(chainText)]
  const flags = table.isOwned ? ['\tflags owner,persist\n'] : []
  return `table ${tableName(table)} {\n${[...flags, ...blocks].join('\n')}}\n`
}

function setText(set: NftSet, elements: readonly string[]): string {
  const list = elements.length === 0 ? '' : `\t\telements = { ${elements.join(',\n\t\t\t     ')} }\n`
  return `\t${set.isMap ? 'map' : 'set'} ${nameText(set.name)} {\n\t\ttype ${setTypeText(set)}\n${list}\t}\n`
}

function chainText({ name, hook, rules, family }: NftChain): string {
  const lines = rules.map((rule) => ruleText(rule, family))
  if (hook !== undefined) lines.unshift(hookText(hook))
  return `\tchain ${nameText(name)} {\n${lines.map((line) => `\t\t${line}\n`).join('')}\t}\n`
}
