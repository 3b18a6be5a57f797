/**
 * The path of a packet as numbered lines, a sentence for each step, and at its end what the client
 * and the endpoint see.
 */
import type { AnswerPath, End, Outcome, PacketPath, PathStep, RouteDecision, SeenSource } from '../../explain/types.ts'
import { printable, quote } from '../../values/quote.ts'
import { formatEndpoint } from '../../values/address.ts'
import type { StyleFormat } from '../../start/style.ts'
import { formatColumns } from '../terminal.ts'
import type { ExplainedPath, Explanation } from './explanation.ts'
import { hanging, labelled, type Paper } from '../paper.ts'

export function pathLines(explained: ExplainedPath, { from }: Explanation, paper: Paper): string[] {
  const { frontend, source, path, because } = explained
  const { style } = paper
  const pod = source === null || from === source ? '' : ` (${printable(from ?? '')})`
  const start = source === null ? 'a process of this node' : `${source}${pod}`
  const title = hanging('', `From ${start} to ${frontend}`, paper).map((line) => style('bold', line))
  if (path === null) return [...title, ...hanging('  ', because, paper).map((line) => style('yellow', line))]
  return [...title, ...startLines(path, paper), ...stepLines(path.steps, 1, paper), ...outcomeLines(path, paper)]
}

function startLines({ source, arrivesAt }: PacketPath, paper: Paper): string[] {
  const where = arrivesAt === undefined ? 'it begins on this node' : `it arrives at ${printable(arrivesAt)}`
  return hanging('  ', source === undefined || source === '' ? where : `${where}, with the source ${source}`, paper)
}

function stepLines(steps: readonly PathStep[], first: number, paper: Paper): string[] {
  const { style } = paper
  return steps.flatMap((step, index) => {
    const number = `${String(first + index).padStart(3)}. `
    const [line = '', ...more] = hanging('', stepWords(step), { ...paper, width: paper.width - number.length })
    const colour = colourOf(step)
    const paint = (text: string): string => (colour === undefined ? text : style(colour, text))
    const indent = ' '.repeat(number.length)
    return [
      `${number}${paint(line)}`,
      ...more.map((text) => `${indent}${paint(text)}`),
      ...(step.rule === '' ? [] : hanging(indent, printable(step.rule), paper).map((text) => style('dim', text))),
    ]
  })
}

function colourOf({ effect }: PathStep): StyleFormat | undefined {
  switch (effect.kind) {
    case 'drop':
    case 'refuse':
    case 'no-real-server':
      return 'red'
    case 'unjudged':
      return 'yellow'
    case 'policy':
      return effect.policy === 'ACCEPT' ? undefined : 'red'
    default:
      return undefined
  }
}

/** Outcomes that are printed one by one. */
const MAX_OUTCOMES = 32

function outcomeLines({ outcomes, steps, choice, affinitySeconds, limits }: PacketPath, paper: Paper): string[] {
  const lines: string[] = []
  const [only, ...others] = outcomes
  if (only !== undefined && others.length === 0) lines.push(...oneOutcome(only, steps.length + 1, paper))
  else if (only !== undefined && isAlike(outcomes))
    lines.push(...exampleLines(only, steps.length + 1, paper), ...endpointTable(outcomes, paper))
  else
    for (const [index, outcome] of outcomes.slice(0, MAX_OUTCOMES).entries()) {
      const condition = outcome.conditions.map(({ rule, matches }) => `${matches ? '' : 'not '}${rule}`).join(' and ')
      const head = `Outcome ${index + 1}, ${shareWords(outcome)}${condition === '' ? '' : `, if the packet matches ${condition}`}`
      lines.push(...hanging('  ', printable(head), paper).map((line) => paper.style('bold', line)))
      lines.push(...oneOutcome(outcome, steps.length + 1, paper))
    }
  if (outcomes.length > MAX_OUTCOMES) lines.push(`  and ${outcomes.length - MAX_OUTCOMES} more outcomes`)
  if (choice !== undefined) lines.push(...labelled('choice', `the endpoint is chosen ${CHOICE_WORDS[choice]}`, paper))
  if (affinitySeconds > 0)
    lines.push(
      ...labelled('affinity', `a client that was here in the last ${affinitySeconds} s keeps its endpoint`, paper),
    )
  for (const limit of limits) lines.push(...labelled('not considered', printable(limit), paper, 'yellow'))
  return lines
}

function oneOutcome({ end, steps }: Outcome, first: number, paper: Paper): string[] {
  const isGood = end.kind === 'endpoint' && end.answer.kind === 'returns'
  const who = end.kind === 'endpoint' ? 'endpoint' : 'destination'
  const source = 'source' in end ? labelled('source', `the ${who} sees ${sourceWords(end.source)}`, paper) : []
  const answer =
    end.kind === 'endpoint'
      ? labelled('answer', answerWords(end.answer), paper, end.answer.kind === 'returns' ? undefined : 'red')
      : []
  const answerSteps =
    end.kind === 'endpoint' && end.answer.kind === 'dropped' ? stepLines(end.answer.steps, 1, paper) : []
  return [
    ...stepLines(steps, first, paper),
    ...labelled('outcome', endWords(end), paper, isGood ? 'green' : 'red'),
    ...source,
    ...answer,
    ...answerSteps,
  ]
}

/** The further steps of one of several outcomes that differ only in their endpoint. */
function exampleLines({ end, steps }: Outcome, first: number, paper: Paper): string[] {
  if (steps.length === 0 || end.kind !== 'endpoint') return []
  const title = `For example to ${formatEndpoint(end.address, end.port)}:`
  return [...hanging('  ', title, paper), ...stepLines(steps, first, paper)]
}

/** Whether outcomes are only different endpoints, so that a table says everything. */
function isAlike(outcomes: readonly Outcome[]): boolean {
  const shape = ({ steps }: Outcome): string =>
    steps.map(({ hook, table, effect }) => `${hook} ${table} ${effect.kind}`).join()
  return (
    outcomes.every(({ end, conditions }) => end.kind === 'endpoint' && conditions.length === 0) &&
    outcomes.length > 1 &&
    new Set(outcomes.map(shape)).size <= 2
  )
}

function endpointTable(outcomes: readonly Outcome[], paper: Paper): string[] {
  const { style } = paper
  const rows = outcomes
    .slice(0, MAX_OUTCOMES)
    .flatMap(({ end, ...outcome }) =>
      end.kind === 'endpoint'
        ? [
            [
              formatEndpoint(end.address, end.port),
              shareWords(outcome),
              end.source.kind === 'own'
                ? `${end.source.address}`
                : `${end.source.address ?? 'this node'} (masqueraded)`,
              end.answer.kind === 'returns' ? 'returns' : quote(answerWords(end.answer)),
            ],
          ]
        : [],
    )
  const columns = [
    { title: 'ENDPOINT' },
    { title: 'SHARE', align: 'right' },
    { title: 'SEES THE SOURCE' },
    { title: 'ANSWER' },
  ] as const
  const table = formatColumns(columns, rows, { indent: 2, paintTitle: (text) => style('dim', text) })
  const isNarrow = formatColumns(columns, rows, { indent: 2 }).some((line) => line.length > paper.width)
  return [
    ...labelled('outcome', 'it reaches one of these endpoints', paper, 'green'),
    ...(isNarrow ? rows.flatMap((row) => hanging('  ', row.join(', '), paper)) : table),
  ]
}

/** One line of plain English for a step; the rule itself is printed below it. */
function stepWords(step: PathStep): string {
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
function percent(share: number): string {
  const rounded = Math.round(share * 1000) / 10
  return `${rounded === 0 ? 'less than 0.1' : rounded} %`
}

/** What happens to the packet, as the answer to the question. */
function endWords(end: End): string {
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

function sourceWords(source: SeenSource): string {
  if (source.kind === 'own') return `${source.address}, the client's own`
  return source.address === undefined
    ? 'an address of this node (masqueraded)'
    : `${source.address}, of this node (masqueraded)`
}

function answerWords(answer: AnswerPath): string {
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

const CHOICE_WORDS: Readonly<Record<NonNullable<PacketPath['choice']>, string>> = {
  turns: 'in turns',
  random: 'at random',
  load: 'by the number of their connections',
  client: 'by the address of the client, which always gets the same one',
  same: 'the same one for all clients',
}

/** The share of an outcome: `50 %`, `by load`, `if …`. */
function shareWords({ share }: Pick<Outcome, 'share'>): string {
  return share === null ? 'by load' : percent(share)
}
