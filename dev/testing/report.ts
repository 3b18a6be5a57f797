/**
 * A node:test reporter: JSON lines for `file-run.ts` to read, one for each test that ended, and others that say how far
 * the tests have got, so that a file that is killed can be asked which of its tests had not ended. A suite is no test, but
 * one that is skipped or whose hook fails has no other line that reports it.
 */
import type { TestEvent } from 'node:test/reporters'
import { inspect } from 'node:util'

export type ReportLine = Verdict | Progress

/** A test that ended. `failed` carries the error's text, `skipped` the reason given ('' when none). */
export interface Verdict {
  readonly verdict: 'passed' | 'failed' | 'skipped'
  /** Names from the outermost suite to the test. */
  readonly name: string
  readonly text: string
}

/** A test or suite, identified by `id`: it is queued, runs, or has ended. */
export interface Progress {
  readonly progress: 'queued' | 'running' | 'ended'
  readonly id: number
  /** As in Verdict. */
  readonly name: string
  /** The suite or test that this one belongs to. */
  readonly parent?: number
}

const PROGRESS = { 'test:enqueue': 'queued', 'test:dequeue': 'running', 'test:complete': 'ended' } as const

export async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const names = new Map<number, string>()
  for await (const event of events) {
    // A test whose hook failed starts without being queued.
    if (event.type === 'test:enqueue' || event.type === 'test:start') {
      const { testId, parentId, name } = event.data
      const outer = parentId === undefined ? undefined : names.get(parentId)
      names.set(testId, outer === undefined ? name : `${outer} > ${name}`)
    }
    const line = lineOf(event, names)
    if (line !== undefined) yield `${JSON.stringify(line)}\n`
  }
}

function lineOf(event: TestEvent, names: ReadonlyMap<number, string>): ReportLine | undefined {
  switch (event.type) {
    case 'test:enqueue':
    case 'test:dequeue':
    case 'test:complete': {
      const { testId: id, parentId: parent, name } = event.data
      const line = { progress: PROGRESS[event.type], id, name: names.get(id) ?? name }
      return parent === undefined ? line : { ...line, parent }
    }
    case 'test:pass':
    case 'test:fail': {
      const line = event.type === 'test:pass' ? verdictOfPass(event.data) : verdictOfFailure(event.data)
      return line === undefined ? undefined : { ...line, name: names.get(event.data.testId) ?? event.data.name }
    }
    default:
      return undefined
  }
}

type Ended<Type extends string> = Extract<TestEvent, { type: Type }>['data']

function verdictOfPass({ skip, todo, details }: Ended<'test:pass'>): Omit<Verdict, 'name'> | undefined {
  if (skip !== undefined && skip !== false) return { verdict: 'skipped', text: skip === true ? '' : skip }
  if (todo !== undefined && todo !== false)
    return { verdict: 'skipped', text: todo === true ? 'todo' : `todo: ${todo}` }
  return details.type === 'suite' ? undefined : { verdict: 'passed', text: '' }
}

function verdictOfFailure({ todo, details }: Ended<'test:fail'>): Omit<Verdict, 'name'> | undefined {
  if (todo !== undefined && todo !== false) return { verdict: 'skipped', text: 'todo' }
  const { error } = details
  if ('failureType' in error && error.failureType === 'subtestsFailed') return undefined // each has its own line
  return { verdict: 'failed', text: inspect(error.cause ?? error, { depth: 8 }) }
}

/** The tests that had not ended when the report did; a suite counts where none of its tests is known yet. */
export function unfinished(lines: readonly ReportLine[]): { readonly running: string[]; readonly waiting: string[] } {
  const latest = new Map<number, Progress>()
  const parents = new Set<number>()
  for (const line of lines) {
    if (!('progress' in line)) continue
    latest.set(line.id, line)
    if (line.parent !== undefined) parents.add(line.parent)
  }
  const namesOf = (progress: Progress['progress']): string[] =>
    [...latest.values()].filter((one) => one.progress === progress && !parents.has(one.id)).map(({ name }) => name)
  return { running: namesOf('running'), waiting: namesOf('queued') }
}
