import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ProblemLog } from '../../src/serve/problem-log.ts'
import { recordingLog } from '../support/recording-log.ts'

const problem = (message: string) => ({ code: 'x', subject: 'demo/web', message })

describe('ProblemLog', () => {
  it('says a problem once, and once that all are gone', () => {
    const log = recordingLog()
    const problems = new ProblemLog(log)
    for (let index = 0; index < 3; index++) problems.report('source', 'demo/web', [problem('a'), problem('b')])
    problems.report('source', 'demo/web', [problem('b'), problem('c')])
    assert.deepEqual(
      Array.from(problems.current(), (it) => it.message),
      ['b', 'c'],
    )
    problems.report('source', 'demo/web', [])
    problems.report('source', 'demo/web', [])
    assert.deepEqual(
      log.lines.map((line) => `${line.level} ${String(line.fields?.['reason'] ?? '')}`.trim()),
      ['warn a', 'warn b', 'warn c', 'info'],
    )
    assert.deepEqual([...problems.current()], [])
  })

  it('keeps reporters apart', () => {
    const log = recordingLog()
    const problems = new ProblemLog(log)
    problems.report('source', 'demo/web', [problem('a')])
    problems.report('service', 'demo/web', [])
    assert.equal([...problems.current()].length, 1)
  })
})
