/** The path of a packet as numbered lines, and at its end what the client and the endpoint see. */
import type { Outcome, PacketPath, PathStep } from '../../explain/types.ts'
import { printable, quote } from '../../values/quote.ts'
import { formatEndpoint } from '../../values/address.ts'
import type { StyleFormat } from '../../start/style.ts'
import { formatColumns } from '../terminal.ts'
import type { ExplainedPath, Explanation } from './explanation.ts'
import { answerWords, choiceWords, endWords, shareWords, sourceWords, stepWords } from './path-words.ts'
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
  if (choice !== undefined) lines.push(...labelled('choice', `the endpoint is chosen ${choiceWords(choice)}`, paper))
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
