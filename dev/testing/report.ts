/**
 * A node:test reporter for `batch.ts`: JSON lines for `test-process.ts` to read, one for each test
 * that ended, one for each file, and others that say how far the tests have got, so that a process
 * that is killed can be asked which of its tests had not ended. A suite is no test, but one that is
 * skipped or whose hook fails has no other line that reports it.
 */
import type { TestEvent } from 'node:test/reporters'
import { inspect } from 'node:util'

export type ReportLine = Verdict | Progress | FileEnd | Told

/** A test that ended. `failed` carries the error's text, `skipped` the reason given ('' when none). */
export interface Verdict {
  readonly verdict: 'passed' | 'failed' | 'skipped'
  /** The outermost suite; '' where no test is to blame. */
  readonly file: string
  /** Names from the file's outermost suite to the test; '' for the file itself. */
  readonly name: string
  readonly text: string
}

/** A test or suite, identified by `id`: it is queued, runs, or has ended. */
export interface Progress {
  readonly progress: 'queued' | 'running' | 'ended'
  readonly id: number
  /** As in Verdict. */
  readonly file: string
  readonly name: string
  /** The suite or test that this one belongs to. */
  readonly parent?: number
}

/** A figure or another text that a test reports about itself (`t.diagnostic`). */
export interface Told {
  readonly told: string
  /** As in Verdict. */
  readonly file: string
  readonly name: string
}

/** All tests of a file have ended, and each has its line. */
export interface FileEnd {
  readonly ended: string
  readonly durationMs: number
}

const PROGRESS = { 'test:enqueue': 'queued', 'test:dequeue': 'running', 'test:complete': 'ended' } as const

/** A test or suite, and the one that it belongs to. */
interface Known {
  readonly name: string
  readonly parentId: number | undefined
}
type KnownTests = ReadonlyMap<number, Known>

export async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const known = new Map<number, Known>()
  let latest: readonly string[] = []
  for await (const event of events) {
    // A test whose hook failed starts without being queued.
    if (event.type === 'test:enqueue' || event.type === 'test:start') {
      const { testId, parentId, name } = event.data
      known.set(testId, { name, parentId })
    }
    if (event.type === 'test:pass' || event.type === 'test:fail')
      latest = pathOf(event.data.testId, event.data.name, known)
    for (const line of linesOf(event, known, latest)) yield `${JSON.stringify(line)}\n`
  }
}

/**
 * Where a test is: the names from the outermost suite, which is the file, to the test. A suite may
 * be queued after its tests.
 */
function pathOf(id: number, name: string, known: KnownTests): readonly string[] {
  const { name: own, parentId } = known.get(id) ?? { name, parentId: undefined }
  const outer = parentId === undefined ? undefined : known.get(parentId)
  return parentId === undefined || outer === undefined ? [own] : [...pathOf(parentId, outer.name, known), own]
}

/** @param latest the test that ended last: its diagnostics follow, and have no name of their own */
function linesOf(event: TestEvent, known: KnownTests, latest: readonly string[]): readonly ReportLine[] {
  switch (event.type) {
    case 'test:enqueue':
    case 'test:dequeue':
    case 'test:complete': {
      const { testId: id, parentId: parent, name } = event.data
      const line = { progress: PROGRESS[event.type], id, ...placeOf(pathOf(id, name, known)) }
      return [parent === undefined ? line : { ...line, parent }]
    }
    case 'test:pass':
    case 'test:fail': {
      const { testId, name, details } = event.data
      const path = pathOf(testId, name, known)
      const verdict = event.type === 'test:pass' ? verdictOfPass(event.data) : verdictOfFailure(event.data)
      return [
        ...(verdict === undefined ? [] : [{ ...verdict, ...placeOf(path) }]),
        ...(path.length === 1 ? [{ ended: name, durationMs: details.duration_ms }] : []),
      ]
    }
    case 'test:diagnostic':
      // An error that belongs to no test which is running; node:test ends with exit code 1 for it.
      return /generated asynchronous activity|asynchronous activity after the test/.test(event.data.message)
        ? [{ verdict: 'failed', file: '', name: '(after the end of a test)', text: event.data.message }]
        : event.data.nesting === 0
          ? [] // the sums of node:test
          : [{ told: event.data.message, ...placeOf(latest) }]
    default:
      return []
  }
}

function placeOf([file = '', ...names]: readonly string[]): { readonly file: string; readonly name: string } {
  return { file, name: names.join(' > ') }
}

type Ended<Type extends string> = Extract<TestEvent, { type: Type }>['data']
type Judgement = Omit<Verdict, 'file' | 'name'>

function verdictOfPass({ skip, todo, details }: Ended<'test:pass'>): Judgement | undefined {
  if (skip !== undefined && skip !== false) return { verdict: 'skipped', text: skip === true ? '' : skip }
  if (todo !== undefined && todo !== false)
    return { verdict: 'skipped', text: todo === true ? 'todo' : `todo: ${todo}` }
  return details.type === 'suite' ? undefined : { verdict: 'passed', text: '' }
}

function verdictOfFailure({ todo, details }: Ended<'test:fail'>): Judgement | undefined {
  if (todo !== undefined && todo !== false) return { verdict: 'skipped', text: 'todo' }
  const { error } = details
  if ('failureType' in error && error.failureType === 'subtestsFailed') return undefined // each has its own line
  return { verdict: 'failed', text: inspect(error.cause ?? error, { depth: 8 }) }
}

/** The tests of a file that had not ended when the report did; a suite counts where none of its tests is known yet. */
export function unfinished(
  lines: readonly ReportLine[],
  file: string,
): { readonly running: string[]; readonly waiting: string[] } {
  const latest = new Map<number, Progress>()
  const parents = new Set<number>()
  for (const line of lines) {
    if (!('progress' in line) || line.file !== file) continue
    latest.set(line.id, line)
    if (line.parent !== undefined) parents.add(line.parent)
  }
  const namesOf = (progress: Progress['progress']): string[] =>
    [...latest.values()]
      .filter((one) => one.progress === progress && one.name !== '' && !parents.has(one.id))
      .map(({ name }) => name)
  return { running: namesOf('running'), waiting: namesOf('queued') }
}
