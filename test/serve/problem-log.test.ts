import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Problem } from '../../src/values/errors.ts'
import { ProblemLog } from '../../src/serve/problem-log.ts'
import { type RecordingLog, recordingLog } from '../support/recording-log.ts'

const problem = (message: string): Problem => ({ code: 'x', about: 'object', subject: 'demo/web', message })

/** Level and reason of each line. */
const textOf = (log: RecordingLog): readonly string[] =>
  log.lines.map(({ level, fields }) => `${level} ${String(fields['reason'] ?? '')}`.trim())

describe('ProblemLog', () => {
  it('logs each problem once, and once that an object has none any more', () => {
    const log = recordingLog()
    const problems = new ProblemLog(log)
    for (let index = 0; index < 3; index++) problems.report('source', 'demo/web', [problem('a'), problem('b')])
    problems.report('source', 'demo/web', [problem('b'), problem('c')])
    problems.report('source', 'demo/web', [])
    problems.report('source', 'demo/web', [])
    assert.deepEqual(textOf(log), ['warn a', 'warn b', 'warn c', 'info'])
  })

  it('keeps the problems of reporters apart', () => {
    const log = recordingLog()
    const problems = new ProblemLog(log)
    problems.report('source', 'demo/web', [problem('a')])
    problems.report('service', 'demo/web', [])
    assert.deepEqual(textOf(log), ['warn a'])
    problems.report('source', 'demo/web', [problem('a')])
    assert.deepEqual(textOf(log), ['warn a'])
    problems.report('source', 'demo/web', [])
    assert.deepEqual(textOf(log), ['warn a', 'info'])
  })

  it('passes on each problem once while it lasts', () => {
    const passed: string[] = []
    const problems = new ProblemLog(recordingLog(), ({ message }) => passed.push(message))
    for (let index = 0; index < 3; index++) problems.report('service', 'demo/web', [problem('a')])
    problems.report('service', 'demo/web', [])
    problems.report('service', 'demo/web', [problem('a')])
    assert.deepEqual(passed, ['a', 'a'])
  })
})
