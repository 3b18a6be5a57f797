/**
 * A node:test reporter: one JSON line for each test that ended, for `file-run.ts` to read.
 * What could break: a suite is no test, but one that is skipped or whose hook fails has no other line that tells so.
 */
import type { TestEvent } from 'node:test/reporters'
import { inspect } from 'node:util'

/** `failed` carries the error's text, `skipped` the reason given ('' when none). */
export interface ReportLine {
  readonly verdict: 'passed' | 'failed' | 'skipped'
  readonly name: string
  readonly text: string
}

export async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const path: string[] = []
  for await (const event of events) {
    if (event.type === 'test:start') {
      path.length = event.data.nesting
      path.push(event.data.name)
      continue
    }
    if (event.type !== 'test:pass' && event.type !== 'test:fail') continue
    const { data } = event
    const line = event.type === 'test:pass' ? verdictOfPass(event.data) : verdictOfFailure(event.data)
    if (line === undefined) continue
    const outer = path.slice(0, data.nesting)
    yield `${JSON.stringify({ ...line, name: [...outer, data.name].join(' > ') })}\n`
  }
}

type Ended<Type extends string> = Extract<TestEvent, { type: Type }>['data']

function verdictOfPass({ skip, todo, details }: Ended<'test:pass'>): Omit<ReportLine, 'name'> | undefined {
  if (skip !== undefined && skip !== false) return { verdict: 'skipped', text: skip === true ? '' : skip }
  if (todo !== undefined && todo !== false)
    return { verdict: 'skipped', text: todo === true ? 'todo' : `todo: ${todo}` }
  return details.type === 'suite' ? undefined : { verdict: 'passed', text: '' }
}

function verdictOfFailure({ todo, details }: Ended<'test:fail'>): Omit<ReportLine, 'name'> | undefined {
  if (todo !== undefined && todo !== false) return { verdict: 'skipped', text: 'todo' }
  const { error } = details
  if ('failureType' in error && error.failureType === 'subtestsFailed') return undefined // each has a line of its own
  return { verdict: 'failed', text: inspect(error.cause ?? error, { depth: 8 }) }
}
