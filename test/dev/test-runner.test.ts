/** The runner of `npm test`: every test file is counted, and never as passed when it did not pass. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { runStage, runTestFile } from '../../dev/testing/file-run.ts'
import { type FileResult, formatFile, formatTotals, formatUnsteady, totalsOf } from '../../dev/testing/result.ts'
import { isAtLeast } from '../kernel/needs.ts'

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-test-'))
after(() => rmSync(folder, { recursive: true }))

async function run(source: string, timeoutMs = 20_000): Promise<FileResult> {
  const file = join(folder, 'sample.test.mjs')
  writeFileSync(file, `import { describe, it, test, before } from 'node:test'\n${source}`)
  const signal = new AbortController().signal
  return runTestFile({ file, cwd: folder, timeoutMs, signal, env: {}, wrap: (command) => command })
}

interface Row {
  readonly what: string
  readonly source: string
  readonly passed: number
  readonly failed: readonly string[]
  readonly skipped: number
  readonly unmet: readonly string[]
  readonly timeoutMs?: number
}
const none = { passed: 0, failed: [], skipped: 0, unmet: [] }
const rows: readonly Row[] = [
  {
    ...none,
    what: 'tests that pass',
    source: `test('a', () => {}); describe('s', () => it('b', () => {}))`,
    passed: 2,
  },
  {
    ...none,
    what: 'a test that fails in a suite',
    source: `describe('s', () => { it('good', () => {}); it('bad', () => { throw new Error('no') }) })`,
    passed: 1,
    failed: ['s > bad'],
  },
  {
    ...none,
    what: 'a hook that fails',
    source: `describe('s', () => { before(() => { throw new Error('no') }); it('never', () => {}) })`,
    failed: ['s > never', 's'],
  },
  { ...none, what: 'a test that is skipped', source: `test('a', { skip: 'later' }, () => {})`, skipped: 1 },
  { ...none, what: 'a test that is to be done', source: `test('a', { todo: true }, () => { throw 1 })`, skipped: 1 },
  {
    ...none,
    what: 'a test and a suite with unmet needs',
    source: `test('a', { skip: 'needs nft' }); describe('s', { skip: 'needs sctp' }, () => it('b', () => {}))`,
    unmet: ['nft', 'sctp'],
  },
  { ...none, what: 'a file without tests', source: '', failed: ['(the file)'] },
  { ...none, what: 'a file that cannot be loaded', source: `import './missing.mjs'`, failed: ['(the file)'] },
  {
    ...none,
    what: 'a file that dies',
    source: `test('a', () => process.exit(7))`,
    failed: ['(the file)'],
  },
  {
    ...none,
    what: 'a file that hangs',
    source: `test('a', () => new Promise((resolve) => setTimeout(resolve, 1e6)))`,
    failed: ['(the file)'],
    timeoutMs: 1500,
  },
]

describe('runTestFile', () => {
  for (const { what, source, passed, failed, skipped, unmet, timeoutMs } of rows)
    it(`counts ${what}`, async () => {
      const result = await run(source, timeoutMs)
      assert.deepEqual(
        { passed: result.passed, failed: result.failures.map(({ name }) => name), skipped: result.skipped },
        { passed, failed, skipped },
      )
      assert.deepEqual([...result.unmet].sort(), [...unmet].sort())
    })

  it('names the tests that had not ended when the time limit was reached', async () => {
    const hangs = `describe('s', () => { it('a', () => {}); it('b', () => new Promise((done) => setTimeout(done, 1e6))); it('c', () => {}) })`
    const result = await run(`${hangs}; describe('t', () => it('d', () => {}))`, 1500)
    assert.equal(result.passed, 1)
    assert.deepEqual(result.failures, [
      {
        name: '(the file)',
        text: ['did not end within 1.5 s', 'had not ended: s > b', 'had not begun: t', 'had not begun: s > c'].join(
          '\n',
        ),
      },
    ])
  })

  it('keeps the reason of a failure and what the file printed', async () => {
    const result = await run(`test('bad', () => { console.log('was here'); throw new Error('the reason') })`)
    assert.match(result.failures[0]?.text ?? '', /the reason/)
    assert.match(result.output, /was here/)
  })
})

const file: FileResult = { ...none, file: 'a.test.ts', passed: 3, failures: [], output: '', durationMs: 1234 }

describe('runStage', () => {
  it('starts no further file after it was stopped', async () => {
    const stopped = new AbortController()
    const taken: string[] = []
    function* files(): Generator<string> {
      for (const name of ['a', 'b', 'c']) {
        taken.push(name)
        writeFileSync(join(folder, name), '')
        yield join(folder, name)
      }
    }
    await runStage({
      files: files(),
      cwd: folder,
      concurrency: 1,
      fileTimeoutMs: 20_000,
      signal: stopped.signal,
      env: {},
      wrap: (command) => command,
      ended: () => stopped.abort(),
    })
    assert.deepEqual(taken, ['a'])
  })
})

describe('formatTotals', () => {
  it('ends with the line that other programs read', () => {
    const unmet = { ...file, passed: 0, skipped: 1, unmet: ['nft', 'sctp', 'nft'] }
    const failed = { ...file, passed: 1, failures: [{ name: 'x', text: '' }] }
    assert.deepEqual(formatTotals(totalsOf([file, unmet, failed])), [
      'needs not met: 3 tests: nft (2), sctp (1)',
      '4 passed, 1 failed, 4 skipped',
    ])
  })
  it('reports that every need was met', () => {
    assert.deepEqual(formatTotals(totalsOf([file])), ['needs not met: 0 tests', '3 passed, 0 failed, 0 skipped'])
  })
})

describe('formatFile', () => {
  it('names only counts that are not 0', () => {
    assert.equal(formatFile(file), 'ok   a.test.ts  3 passed  1.2 s')
  })
})

describe('isAtLeast', () => {
  for (const [kernel, wanted, expected] of [
    ['6.2.0', '6.2', true],
    ['6.12.3-amd64', '6.2', true],
    ['7.0', '6.2', true],
    ['6.1.176', '6.2', false],
    ['5.19', '6.2', false],
  ] as const)
    it(`compares ${kernel} with ${wanted}`, () => assert.equal(isAtLeast(kernel, wanted), expected))
})

it('formatUnsteady names the files that passed only at their second run, and has no lines without any', () => {
  assert.deepEqual(formatUnsteady([]), [])
  assert.deepEqual(formatUnsteady(['test/a.test.ts']), [
    'UNSTEADY: 1 file passed only at the second run: test/a.test.ts',
  ])
})
