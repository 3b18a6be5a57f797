/** The runner of `npm test`: every test file is counted, and never as passed when it did not pass. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { type FileResult, formatFile, formatTotals, totalsOf } from '../../dev/testing/result.ts'
import { SEED_VARIABLE, seedOf } from '../../dev/testing/seed.ts'
import { runStage } from '../../dev/testing/stage.ts'
import { runTestProcess } from '../../dev/testing/test-process.ts'
import { isAtLeast } from '../kernel/needs.ts'
import { deadline } from '../support/deadline.ts'

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-test-'))
after(() => rmSync(folder, { recursive: true }))

const HEAD = `import { after, afterEach, before, beforeEach, describe, it, mock, test } from 'node:test'\n`

/** Runs these sources as files in one process; the names are those of the files without their folder. */
async function runAll(sources: Readonly<Record<string, string>>, fileTimeoutMs = 20_000) {
  const results: FileResult[] = []
  for (const [name, source] of Object.entries(sources)) writeFileSync(join(folder, name), `${HEAD}${source}`)
  const notBegun = await runTestProcess({
    files: Object.keys(sources),
    cwd: folder,
    fileTimeoutMs,
    signal: new AbortController().signal,
    env: { [SEED_VARIABLE]: '1' },
    wrap: (command) => command,
    ended: (result) => results.push(result),
  })
  return { results, notBegun }
}

async function run(source: string, timeoutMs?: number): Promise<FileResult> {
  const { results, notBegun } = await runAll({ 'sample.test.mjs': source }, timeoutMs)
  const [result] = results
  assert.ok(result !== undefined && results.length === 1)
  assert.deepEqual(notBegun, [])
  return result
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
    timeoutMs: 4000,
  },
]

describe('runTestProcess', () => {
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
    const result = await run(`${hangs}; describe('t', () => it('d', () => {}))`, 4000)
    assert.equal(result.passed, 1)
    assert.deepEqual(result.failures, [
      {
        name: '(the file)',
        text: ['did not end within 4 s', 'had not ended: s > b', 'had not begun: t', 'had not begun: s > c'].join('\n'),
      },
    ])
  })

  it('shows what the processes of a file that hangs are doing', async () => {
    const hangs = `import { execFileSync } from 'node:child_process'; test('a', () => execFileSync('sleep', ['61']))`
    assert.match(
      (await run(hangs, 4000)).output,
      /^Its processes at the time limit:\n\d+ S \S+ \S+node .*\n\d+ S \S+ sleep 61$/m,
    )
  })

  it('keeps the reason of a failure and what the file printed', async () => {
    const result = await run(`test('bad', () => { console.log('was here'); throw new Error('the reason') })`)
    assert.match(result.failures[0]?.text ?? '', /the reason/)
    assert.match(result.output, /was here/)
  })

  const FINE = `test('fine', () => {})`
  const names = (results: readonly FileResult[]): readonly string[] =>
    results.map(({ file, passed, failures }) => `${file} ${passed} ${failures.length}`)

  it('reports the files of a process one by one, each with its own tests and hooks', async () => {
    const { results, notBegun } = await runAll({
      'a.test.mjs': `beforeEach(() => { throw new Error('only for this file') }); test('a', () => {})`,
      'b.test.mjs': FINE,
      'c.test.mjs': `throw new Error('at import')`,
      'd.test.mjs': `await new Promise((done) => setTimeout(done, 50)); ${FINE}`,
      'e.test.mjs': '',
    })
    assert.deepEqual(names(results), [
      'a.test.mjs 0 1',
      'b.test.mjs 1 0',
      'c.test.mjs 0 1',
      'd.test.mjs 1 0',
      'e.test.mjs 0 1',
    ])
    assert.match(results[2]?.failures[0]?.text ?? '', /at import/)
    assert.deepEqual(notBegun, [])
  })

  it('counts the tests of files that load the same slow module, each for its own file', async () => {
    writeFileSync(join(folder, 'slow.mjs'), 'await new Promise((done) => setTimeout(done, 50))')
    const sources = { 'a.test.mjs': `import './slow.mjs'; ${FINE}`, 'b.test.mjs': `import './slow.mjs'; ${FINE}` }
    const { results } = await runAll({ ...sources, 'c.test.mjs': FINE })
    assert.deepEqual(names(results), ['a.test.mjs 1 0', 'b.test.mjs 1 0', 'c.test.mjs 1 0'])
  })

  it('blames the file that ran when its process died or hung, and returns those that had not begun', async () => {
    // The last lines of a report are lost when a process dies at once.
    const dies = `new Promise(() => setTimeout(() => process.kill(process.pid, 'SIGKILL'), 1000))`
    for (const guilty of [dies, 'new Promise((done) => setTimeout(done, 1e6))']) {
      const sources = { 'a.test.mjs': FINE, 'b.test.mjs': `test('b', () => ${guilty})`, 'c.test.mjs': FINE }
      const { results, notBegun } = await runAll(sources, 4000)
      assert.deepEqual(names(results), ['a.test.mjs 1 0', 'b.test.mjs 0 1'])
      assert.match(results[1]?.failures[0]?.text ?? '', /had not ended: b/)
      assert.deepEqual(notBegun, ['c.test.mjs'])
    }
  })

  it('counts an error that comes after the end of its test, and names the file', async () => {
    const late = `test('early', () => void setTimeout(() => { throw new Error('too late') }, 50)); test('b', () => new Promise((done) => setTimeout(done, 200)))`
    const { results } = await runAll({ 'a.test.mjs': late, 'b.test.mjs': FINE })
    assert.deepEqual(names(results), [
      'a.test.mjs 2 0',
      'b.test.mjs 1 0',
      'a.test.mjs (an error after the end of a test) 0 1',
    ])
    assert.match(results[2]?.failures[0]?.text ?? '', /"early".*too late/)
  })

  it('blames no file when a process died before any of several had begun', async () => {
    const { results, notBegun } = await runAll({ 'a.test.mjs': FINE, 'b.test.mjs': 'process.exit(3)' })
    assert.deepEqual([results, notBegun], [[], ['a.test.mjs', 'b.test.mjs']])
  })

  for (const [what, source, named] of [
    [
      'a process',
      `import { spawn } from 'node:child_process'; test('a', () => { spawn('sleep', ['60'], { detached: true, stdio: 'ignore' }).unref() })`,
      /^Error: the file leaves behind: process \d+ \(sleep 60\)/,
    ],
    ['a variable of the environment', `test('a', () => { process.env.LEFT = '1' })`, /variable LEFT/],
    ['fake timers', `test('a', () => { mock.timers.enable() })`, /replaced setTimeout; .*replaced Date/],
    ['a listener for a signal', `test('a', () => { process.on('SIGTERM', () => {}) })`, /listener for SIGTERM/],
    ['another working folder', `test('a', () => { process.chdir('/') })`, /working folder \//],
  ] as const)
    it(`fails a file that leaves ${what} behind`, { timeout: deadline(30_000) }, async () => {
      const { passed, failures } = await run(source)
      assert.deepEqual([passed, failures.map(({ name }) => name)], [1, ['(the file)']])
      assert.match(failures[0]?.text ?? '', named)
    })
})

it('keeps what each test tells about itself', async () => {
  const { told } = await run(
    `describe('s', () => { it('a', (t) => t.diagnostic('3 ms')); it('b', (t) => { t.diagnostic('4 ms'); throw new Error('no') }) })`,
  )
  assert.deepEqual(told, ['a: 3 ms', 'b: 4 ms'])
})

const file: FileResult = {
  ...none,
  file: 'a.test.ts',
  passed: 3,
  failures: [],
  told: [],
  output: '',
  durationMs: 1234,
}

describe('runStage', () => {
  it('starts no further file after it was stopped', async () => {
    const stopped = new AbortController()
    const taken: string[] = []
    function* batches(): Generator<readonly string[]> {
      for (const name of ['a', 'b', 'c']) {
        taken.push(name)
        writeFileSync(join(folder, `${name}.mjs`), '')
        yield [`${name}.mjs`]
      }
    }
    await runStage({
      batches: batches(),
      cwd: folder,
      concurrency: 1,
      fileTimeoutMs: 20_000,
      signal: stopped.signal,
      env: { [SEED_VARIABLE]: '1' },
      wrap: (command) => command,
      ended: () => stopped.abort(),
    })
    assert.deepEqual(taken, ['a'])
  })

  it('runs files that a dead process had not begun in processes of their own', async () => {
    writeFileSync(join(folder, 'fine.mjs'), `${HEAD}test('fine', () => {})`)
    writeFileSync(join(folder, 'dead.mjs'), 'process.exit(3)')
    const results: FileResult[] = []
    await runStage({
      batches: [['fine.mjs', 'dead.mjs']],
      cwd: folder,
      concurrency: 1,
      fileTimeoutMs: 20_000,
      signal: new AbortController().signal,
      env: { [SEED_VARIABLE]: '1' },
      wrap: (command) => command,
      ended: (result) => results.push(result),
    })
    assert.deepEqual(
      results.map(({ file: name, passed, failures }) => [name, passed, failures.map(({ text }) => text)]),
      [
        ['fine.mjs', 1, []],
        ['dead.mjs', 0, ['ended with exit code 3']],
      ],
    )
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

describe('the values of property tests', () => {
  const source = `const fc = (await import('${import.meta.resolve('fast-check')}')).default
    test('a', () => { throw new Error(fc.sample(fc.integer(), 3).join() + ' ' + fc.readConfigureGlobal().seed) })`

  it('are the same in every run', async () => {
    const [first, second] = [await run(source), await run(source)]
    assert.match(first.failures[0]?.text ?? '', / 1$/m)
    assert.deepEqual(second.failures, first.failures)
  })

  const rows: readonly [given: string | undefined, seed: number | undefined][] = [
    [undefined, 1],
    ['0', 0],
    ['2147483647', 2147483647],
    ['2147483648', undefined],
    ['-1', undefined],
    ['', undefined],
    ['soon', undefined],
  ]
  for (const [given, seed] of rows)
    it(`are those of ${seed} with KUBE_IPVS_SEED=${given}`, () =>
      assert.equal(seedOf({ KUBE_IPVS_SEED: given }, false), seed))
})
