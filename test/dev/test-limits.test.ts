/** How long a run of tests may take, and that every file is accounted for when it takes longer. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { batchesOf, formatSlowest, longestFirst, readDurations, recordDurations } from '../../dev/testing/durations.ts'
import { account, type GuestState } from '../../dev/testing/kernel-run.ts'
import { limitsFor, SLOW_FACTOR } from '../../dev/testing/limits.ts'
import { type FileResult, formatLeftOut, formatTotals, notRun, totalsOf } from '../../dev/testing/result.ts'

const MINUTE_MS = 60_000
const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-test-'))
after(() => rmSync(folder, { recursive: true }))

describe('limitsFor', () => {
  it('leaves no file out on a fast kernel, in CI, or when files were named', () => {
    assert.equal(limitsFor(1, true).beginWithinMs, undefined)
    assert.equal(limitsFor(20, false).beginWithinMs, undefined)
    assert.ok((limitsFor(SLOW_FACTOR, true).beginWithinMs ?? 0) > 5 * MINUTE_MS)
  })
  it('scales with the kernel and stays below the 90 minutes of CI', () => {
    assert.equal(limitsFor(3, true).fileMs, 3 * limitsFor(1, true).fileMs)
    assert.equal(limitsFor(3, true).stageMs, 3 * limitsFor(1, true).stageMs)
    assert.ok(limitsFor(20, false).stageMs <= 75 * MINUTE_MS)
  })
})

describe('account', () => {
  const guest = (more: Partial<GuestState> = {}): GuestState => ({
    begun: new Set(['a', 'b']),
    ended: new Set(['a', 'b']),
    mayHaveLeftOut: false,
    trouble: undefined,
    ...more,
  })
  const accountOf = (guests: readonly GuestState[], signal = new AbortController().signal) => {
    const results: FileResult[] = []
    const leftOut = account({ signal, ended: (result) => results.push(result) }, ['a', 'b', 'c', 'd'], guests)
    const failed = results.flatMap(({ file, failures }) => failures.map(({ text }) => `${file}: ${text}`))
    const unmet = results.flatMap(({ file, unmet: needs }) => needs.map((need) => `${file}: ${need}`))
    return { leftOut, failed, unmet }
  }
  const other = guest({ begun: new Set(['c', 'd']), ended: new Set(['c', 'd']) })

  it('finds nothing missing when the guests together have run all files', () => {
    assert.deepEqual(accountOf([guest(), other]), { leftOut: [], failed: [], unmet: [] })
  })
  it('lists files that a slow kernel had no time for as left out, never as passed', () => {
    assert.deepEqual(accountOf([guest({ mayHaveLeftOut: true })]), {
      leftOut: ['c', 'd'],
      failed: [],
      unmet: ['c: more time on this slow kernel', 'd: more time on this slow kernel'],
    })
  })
  it('fails missing files on any other kernel, after trouble, and when the run was stopped', () => {
    const failed = ['c: it was not begun', 'd: it was not begun']
    assert.deepEqual(accountOf([guest()]).failed, failed)
    assert.deepEqual(accountOf([guest({ mayHaveLeftOut: true, trouble: 'it died' })]).failed, failed)
    assert.deepEqual(accountOf([guest({ mayHaveLeftOut: true })], AbortSignal.abort()).failed, failed)
  })
  it('fails a file that was begun and did not end, even where files may be left out', () => {
    const died = guest({ begun: new Set(['a', 'b', 'c']), mayHaveLeftOut: true })
    const { leftOut, failed } = accountOf([died])
    assert.deepEqual([leftOut, failed], [['d'], ['c: it was begun and did not end']])
  })
})

describe('formatLeftOut', () => {
  it('shows how to run the rest', () => {
    const [first = '', second = ''] = formatLeftOut(['test/kernel/a.test.ts', 'test/kernel/b.test.ts'])
    assert.match(first, /^NOT EVERYTHING WAS RUN.* 2 files /)
    assert.equal(second.trim(), 'npm test -- --kernel-only test/kernel/a.test.ts test/kernel/b.test.ts')
    assert.deepEqual(formatLeftOut([]), [])
  })
  it('counts as needs that were not met', () => {
    const left = notRun('a', 'more time on this slow kernel')
    assert.deepEqual(formatTotals(totalsOf([{ ...left, passed: 1, unmet: [] }, left])), [
      'needs not met: 1 test: more time on this slow kernel (1)',
      '1 passed, 0 failed, 1 skipped',
    ])
  })
})

describe('longestFirst', () => {
  const path = join(folder, 'durations.json')
  const result = (file: string, durationMs: number): FileResult => ({ ...notRun(file, ''), unmet: [], durationMs })

  it('puts files without a record first, the largest of them before the others', () => {
    for (const [name, size] of Object.entries({ short: 1, long: 1, new: 1, large: 9 }))
      writeFileSync(join(folder, name), 'x'.repeat(size))
    assert.deepEqual(longestFirst(['short', 'new', 'long', 'large'], { short: 10, long: 20 }, folder), [
      'large',
      'new',
      'long',
      'short',
    ])
  })
  it('uses the last recorded duration of a file', () => {
    assert.deepEqual(readDurations(path), {})
    recordDurations(path, [result('a', 10), result('b', 20)])
    recordDurations(path, [result('b', 5.4), result('(all)', 0)])
    assert.deepEqual(readDurations(path), { a: 10, b: 5 })
    writeFileSync(path, 'not JSON')
    assert.deepEqual(readDurations(path), {})
  })
  it('names the slowest at the end', () => {
    assert.equal(formatSlowest([result('a', 900), result('b', 5400), result('c', 2000)], 2), 'slowest: b 5 s, c 2 s')
  })
})

describe('batchesOf', () => {
  it('gives each batch about the same time, and the longest file first', () => {
    const durations = { a: 1000, b: 600, c: 500, d: 100 }
    assert.deepEqual(batchesOf(['d', 'c', 'b', 'a', 'new'], durations, 2), [
      ['a', 'new'],
      ['b', 'c', 'd'],
    ])
  })
  it('makes no empty batch', () => {
    assert.deepEqual(batchesOf(['a'], {}, 4), [['a']])
    assert.deepEqual(batchesOf([], {}, 4), [])
  })
})
