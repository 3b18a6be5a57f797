/**
 * Files that failed and passed when they ran again: a failure in CI, and the second time in ten
 * runs on any machine.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import {
  formatSteadiness,
  isForgiven,
  judgeSecondRun,
  type KnownList,
  parseHistory,
  parseKnownList,
  remember,
  type Steadiness,
  type UnsteadyHistory,
} from '../../dev/testing/unsteady.ts'

const NOW_MS = Date.parse('2026-11-26T12:00:00Z')
const NONE: KnownList = { entries: [], problems: [] }
const FILE = 'test/a.test.ts'
const parse = (text: string) => parseKnownList(text, 'list', NOW_MS, (file) => file === FILE)

describe('parseKnownList', () => {
  it('reads entries of at most 30 days, and comments', () => {
    const { entries, problems } = parse(`# why\n\n${FILE} 2026-10-28 the clock of the guest jumps\n`)
    assert.deepEqual(problems, [])
    assert.deepEqual(entries, [
      { file: FILE, sinceMs: Date.parse('2026-10-28'), reason: 'the clock of the guest jumps' },
    ])
  })
  for (const [line, problem] of [
    [`${FILE} 2026-10-26 it is old`, /^list:1: the entry of test\/a\.test\.ts is older than 30 days/],
    [`${FILE} 2026-11-01`, /^list:1 is not "FILE YYYY-MM-DD REASON"$/],
    [`${FILE} 2026-13-01 no such month`, /^list:1 is not "FILE YYYY-MM-DD REASON"$/],
    [`${FILE} yesterday it failed`, /^list:1 is not/],
    ['test/gone.test.ts 2026-11-01 it was removed', /^list:1 names test\/gone\.test\.ts, which is no test file$/],
  ] as const)
    it(`refuses "${line}"`, () => {
      const { entries, problems } = parse(line)
      assert.deepEqual([entries, problems.length], [[], 1])
      assert.match(problems[0] ?? '', problem)
    })
  it('finds nothing wrong with the list of this repository', () => {
    const { problems } = parseKnownList(readFileSync('test/unsteady.txt', 'utf8'), 'list', Date.now(), existsSync)
    assert.deepEqual(problems, [])
  })
})

describe('judgeSecondRun', () => {
  const known = parse(`${FILE} 2026-11-20 known`)
  const earlier = [[FILE], ...Array.from({ length: 8 }, () => [])]
  const longAgo = [[FILE], ...Array.from({ length: 9 }, () => [])]
  const rows: readonly [what: string, passed: boolean, list: KnownList, UnsteadyHistory, isCi: boolean, Steadiness][] =
    [
      ['failed again', false, known, [], false, 'broken'],
      ['passed, in CI', true, NONE, [], true, 'unsteady'],
      ['passed, in CI, and is listed', true, known, [], true, 'listed'],
      ['passed, here, for the first time', true, NONE, [['test/b.test.ts']], false, 'tolerated'],
      ['passed, here, and was unsteady nine runs ago', true, NONE, earlier, false, 'repeatedly-unsteady'],
      ['passed, here, and was unsteady ten runs ago', true, NONE, longAgo, false, 'tolerated'],
    ]
  for (const [what, passed, list, history, isCi, expected] of rows)
    it(`calls a file ${expected} that ${what}`, () => {
      assert.equal(judgeSecondRun({ file: FILE, passed }, list, history, isCi), expected)
    })
  it('forgives only what is listed or tolerated', () => {
    const kinds: readonly Steadiness[] = ['broken', 'unsteady', 'repeatedly-unsteady', 'listed', 'tolerated']
    assert.deepEqual(kinds.filter(isForgiven), ['listed', 'tolerated'])
  })
})

describe('the history', () => {
  it('keeps ten runs, and starts empty from anything else than its own JSON', () => {
    let history: UnsteadyHistory = []
    for (let run = 0; run < 12; run++) history = remember(history, [String(run)])
    assert.deepEqual(history.flat(), ['2', '3', '4', '5', '6', '7', '8', '9', '10', '11'])
    assert.deepEqual(parseHistory(JSON.stringify(history)), history)
    for (const text of ['', '{}', 'null', '[1, ["a", 2]']) assert.deepEqual(parseHistory(text), [])
    assert.deepEqual(parseHistory('[1, ["a", 2]]'), [[], ['a']])
  })
})

describe('formatSteadiness', () => {
  it('says of each kind in one line what it means', () => {
    const lines = formatSteadiness(
      new Map([
        ['a', 'broken'],
        ['b', 'unsteady'],
        ['c', 'broken'],
      ]),
    )
    assert.deepEqual(lines, [
      'BROKEN, failed in both runs: a, c',
      'UNSTEADY, failed and then passed alone, which is a failure in CI: b',
    ])
    assert.deepEqual(formatSteadiness(new Map()), [])
  })
})
