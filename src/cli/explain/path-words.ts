/** The steps and the end of a packet's path as sentences, one for each. */
import type { AnswerPath, Choice, End, Outcome, PathStep, RouteDecision, SeenSource } from '../../explain/types.ts'
import { formatEndpoint } from '../../values/address.ts'

/** One line of plain English for a step; the rule itself is printed below it. */
export function stepWords(step: PathStep): string {
  return `${placeOf(step)}: ${reasonOf(step)}${effectOf(step)}`
}

/** Whether a mark means that the packet is masqueraded: in the chain of both modes, and wherever the private table sets one. */
const isToMasquerade = ({ chain, table }: PathStep): boolean => chain === 'KUBE-MARK-MASQ' || isPrivate(table)

/** `ip kube-ipvs`; names of tables of iptables are one word. */
const isPrivate = (table: string): boolean => table.includes(' ')

function placeOf({ hook, table, chain }: PathStep): string {
  if (table === 'ipvs') return `${hook}, IPVS`
  if (table === 'routing') return 'routing'
  return `${hook}, ${table}${chain === '' || chain === hook ? '' : ` ${chain}`}`
}

/** What the rule found in sets. */
function reasonOf({ sets, chance }: PathStep): string {
  const found = sets.map(({ name, entry }) =>
    entry === undefined ? `${name} does not have it` : `${name} has ${entry}`,
  )
  const parts = [...found, ...(chance === undefined || chance === 1 ? [] : [`with a chance of ${percent(chance)}`])]
  return parts.length === 0 ? '' : `${parts.join(', ')}: `
}

function effectOf(step: PathStep): string {
  const { effect } = step
  switch (effect.kind) {
    case 'jump':
      return `the packet goes to the chain ${effect.chain}`
    case 'mark':
      if (effect.mark === 0) return 'the mark is removed'
      return `the packet gets the mark 0x${(effect.mark >>> 0).toString(16)}${isToMasquerade(step) ? ', to be masqueraded' : ''}`
    case 'accept':
      if (isPrivate(step.table)) return 'the chain is done with the packet here'
      // Other tables still see it.
      return step.table === 'nat' ? 'the table nat is done with the packet here' : 'the packet is accepted'
    case 'return':
      return 'the packet returns to the chain before'
    case 'drop':
      return 'the packet is dropped'
    case 'refuse':
      return `the packet is refused (${effect.by})`
    case 'policy':
      return `no rule decided, and the policy of the chain is ${effect.policy}`
    case 'translate':
      return `its destination becomes ${formatEndpoint(effect.address, effect.port)}`
    case 'masquerade':
      return effect.address === undefined
        ? 'it is masqueraded: its source becomes an address of this node'
        : `it is masqueraded: its source becomes ${effect.address}`
    case 'keep-destination':
      return 'its destination stays as it is, and no other rule of nat changes it'
    case 'untrack':
      return 'its connection is not tracked, so no rule of nat sees it'
    case 'balance':
      return (
        `virtual server ${effect.virtualServer} (${effect.scheduler}) sends it to ${effect.realServer}` +
        (effect.share === null || effect.share === 1 ? '' : ` for ${percent(effect.share)} of connections`)
      )
    case 'no-real-server':
      return `virtual server ${effect.virtualServer} has no real server that takes it`
    case 'route':
      return routeWords(effect.decision)
    case 'unjudged':
      return (
        `it cannot be known whether the rule matches (${effect.because}); this path assumes that it ` +
        (effect.matches ? 'does' : 'does not')
      )
  }
}

function routeWords(decision: RouteDecision): string {
  switch (decision.kind) {
    case 'local':
      return 'the destination is this node'
    case 'out':
      return `it leaves through ${decision.interface}${decision.gateway === undefined ? '' : `, to the gateway ${decision.gateway}`}`
    case 'none':
      return `there is no route to it (${decision.error})`
  }
}

/** `25 %`, `33.3 %` */
export function percent(share: number): string {
  const rounded = Math.round(share * 1000) / 10
  return `${rounded === 0 ? 'less than 0.1' : rounded} %`
}

/** What happens to the packet, as the answer to the question. */
export function endWords(end: End): string {
  switch (end.kind) {
    case 'endpoint':
      return `it reaches ${formatEndpoint(end.address, end.port)}${end.isLocal ? ' (an address of this node)' : ''}`
    case 'refused':
      return `it is refused at once (${end.by})`
    case 'dropped':
      return 'it is dropped: the client waits until it gives up'
    case 'delivered':
      return `it reaches a process of this node at ${formatEndpoint(end.address, end.port)}, without any Service`
    case 'forwarded':
      return `it leaves through ${end.interface}${end.gateway === undefined ? '' : ` to ${end.gateway}`}: no Service of this node has the destination`
    case 'unroutable':
      return `this node has no way to the destination (${end.error})`
  }
}

export function sourceWords(source: SeenSource): string {
  if (source.kind === 'own') return `${source.address}, the client's own`
  return source.address === undefined
    ? 'an address of this node (masqueraded)'
    : `${source.address}, of this node (masqueraded)`
}

export function answerWords(answer: AnswerPath): string {
  switch (answer.kind) {
    case 'returns':
      return 'its answer returns through this node'
    case 'bypasses':
      return `its answer does not return through this node, so the client does not recognise it: ${answer.because}`
    case 'dropped':
      return 'its answer is dropped on this node'
    case 'unsure':
      return `it cannot be known whether its answer returns: ${answer.because}`
  }
}

const CHOICE: Readonly<Record<Choice, string>> = {
  turns: 'in turns',
  random: 'at random',
  load: 'by the number of their connections',
  client: 'by the address of the client, which always gets the same one',
  same: 'the same one for all clients',
}

export function choiceWords(choice: Choice): string {
  return CHOICE[choice]
}

/** The share of an outcome: `50 %`, `by load`, `if …`. */
export function shareWords({ share }: Pick<Outcome, 'share'>): string {
  return share === null ? 'by load' : percent(share)
}
