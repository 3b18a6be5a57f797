/** A sink for tests: records the state after all changes, and every call in order. */
import type { ObjectChange, ObjectKind } from '../../src/service/objects.ts'
import type { Problem } from '../../src/values/errors.ts'
import type { ObjectSink } from '../../src/watch/source.ts'
import { briefly } from './objects/parse.ts'

export interface RecordingSink extends ObjectSink {
  /** Values by `kind key`. */
  readonly state: Map<string, unknown>
  /** `+ key`, `- key`, `listed kind`. */
  readonly calls: string[]
  /** Brief problems by subject. */
  readonly troubles: Map<string, string[]>
  /** Problems in full, by subject. */
  readonly problemsBySubject: Map<string, readonly Problem[]>
}

export function recordingSink(): RecordingSink {
  const state = new Map<string, unknown>()
  const calls: string[] = []
  const troubles = new Map<string, string[]>()
  const problemsBySubject = new Map<string, readonly Problem[]>()
  return {
    state,
    calls,
    troubles,
    problemsBySubject,
    apply(changes: readonly ObjectChange[]) {
      for (const { kind, key, value } of changes) {
        calls.push(`${value === undefined ? '-' : '+'} ${key}`)
        if (value === undefined) state.delete(`${kind} ${key}`)
        else state.set(`${kind} ${key}`, value)
      }
    },
    listed(kind: ObjectKind) {
      calls.push(`listed ${kind}`)
    },
    problems(subject: string, problems: readonly Problem[]) {
      problemsBySubject.set(subject, problems)
      if (problems.length === 0) troubles.delete(subject)
      else troubles.set(subject, briefly(problems))
    },
  }
}
