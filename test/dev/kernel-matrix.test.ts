/** The kernel matrix of the evidence: its cells, what results amount to, and the loader of a program. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it, test } from 'node:test'
import {
  type Cell,
  cellOf,
  coreTestOf,
  type Counts,
  countsOf,
  FIREWALLS,
  formatCell,
  INTERFACE_TESTS,
  KERNELS,
  type KernelResult,
  problemsOf,
  unmetCells,
  verdictOf,
} from '../../dev/evidence/kernels/cells.ts'
import { withInterpreter } from '../../dev/kernel/interpreter.ts'
import { userModeGuest } from '../../dev/kernel/user-mode.ts'
import { projectFolder } from '../../dev/progress.mjs'
import { isChosen } from '../../dev/testing/extent.ts'
import { failedRun, type FileResult, notRun } from '../../dev/testing/result.ts'
import { FIREWALLS as TESTED } from '../support/firewalls.ts'

const ran = (file: string, passed: number): FileResult => ({ ...notRun(file, ''), passed, unmet: [] })
const GOOD: Counts = { passed: 3, failed: 0, unmet: [] }
const BAD: Counts = { passed: 3, failed: 1, unmet: ['sctp'], failures: ['a.test.ts > x'] }
const LACKS: Counts = { passed: 0, failed: 0, unmet: ['nft'] }
const DEMO = { virtualServers: 12, realServers: 20, sent: 54, answered: 54, seconds: 9 }

describe('the cells', () => {
  it('are every firewall of the tests on each kernel, and every file of them exists', () => {
    assert.deepEqual(
      FIREWALLS,
      TESTED.map(({ name }) => name),
    )
    for (const file of [...INTERFACE_TESTS, ...FIREWALLS.map(coreTestOf)])
      assert.ok(existsSync(join(projectFolder, file)), file)
    for (const firewall of FIREWALLS)
      assert.match(readFileSync(join(projectFolder, coreTestOf(firewall)), 'utf8'), new RegExp(`firewall ${firewall};`))
  })
  it('have tests that a quick run leaves out, unless they are named', () => {
    const core = coreTestOf('nftables')
    assert.deepEqual(
      [isChosen(core, [], false), isChosen(core, [], true), isChosen(core, ['kernel/core'], false)],
      [false, true, true],
    )
    const other = 'test/kernel/ipset.test.ts'
    assert.deepEqual([isChosen(other, [], false), isChosen(other, ['kernel/core'], true)], [true, false])
  })
  it('have kernels of both Debian releases in both kinds of guests, and the image', () => {
    assert.equal(new Set(KERNELS.map(({ name }) => name)).size, KERNELS.length)
    assert.deepEqual(
      KERNELS.map(({ provider, release = '' }) => `${provider} ${release}`),
      ['image ', 'uml bookworm', 'uml trixie', 'qemu bookworm', 'qemu trixie'],
    )
  })
})

describe('what results amount to', () => {
  it('counts, and names what failed and what is unmet', () => {
    const failures = failedRun('b', 'died')
    assert.deepEqual(countsOf([ran('a', 2), notRun('c', 'sctp'), notRun('d', 'nft'), notRun('e', 'nft')]), {
      passed: 2,
      failed: 0,
      unmet: ['nft', 'sctp'],
    })
    assert.deepEqual(countsOf([ran('a', 2), failures]), { passed: 2, failed: 1, unmet: [], failures: ['b > (run)'] })
  })
  for (const [what, counts, verdict] of [
    ['tests that passed', GOOD, 'passed'],
    ['one that failed', BAD, 'failed'],
    ['one that failed, all others unmet', { ...LACKS, failed: 1 }, 'failed'],
    ['only unmet ones', LACKS, 'unmet'],
    ['some unmet ones', { ...LACKS, passed: 1 }, 'passed'],
    ['nothing at all', { ...GOOD, passed: 0 }, 'failed'],
  ] as const)
    it(`is ${verdict} with ${what}`, () => assert.equal(verdictOf(counts), verdict))

  for (const [what, cell, verdict, line] of [
    ['tests and demo', cellOf(GOOD, DEMO), 'passed', 'passed: 3 tests, 54 of 54 requests of the demo'],
    [
      'something unmet beside',
      cellOf({ ...GOOD, unmet: ['sctp'] }, DEMO),
      'passed',
      'passed: 3 tests, 54 of 54 requests of the demo, unmet: sctp',
    ],
    ['no such firewall', cellOf(LACKS, undefined), 'unmet', 'unmet: the kernel lacks nft'],
    ['a failed test', cellOf(BAD, undefined), 'failed', 'failed: 3 tests, no demo, unmet: sctp (a.test.ts > x)'],
    ['no demo', cellOf(GOOD, undefined), 'failed', 'failed: 3 tests, no demo (the demo was not run)'],
    ['a demo that ended', cellOf(GOOD, 'no pod'), 'failed', 'failed: 3 tests, no demo (demo: no pod)'],
    [
      'a request without an answer',
      cellOf(GOOD, { ...DEMO, answered: 53 }),
      'failed',
      'failed: 3 tests, 53 of 54 requests of the demo (demo: 53 of 54 requests were answered)',
    ],
    [
      'a demo without requests',
      cellOf(GOOD, { ...DEMO, sent: 0, answered: 0 }),
      'failed',
      'failed: 3 tests, 0 of 0 requests of the demo (demo: 0 of 0 requests were answered)',
    ],
  ] as [string, Cell, string, string][])
    it(`of a cell is ${verdict} with ${what}`, () => {
      assert.equal(cell.verdict, verdict)
      assert.equal(formatCell(cell), line)
    })

  it('are problems where something failed, not where it could not run', () => {
    const kernel = { what: 'a kernel', interface: GOOD, seconds: 1 }
    const unmet: KernelResult = { ...kernel, kernel: 'a', firewalls: unmetCells('no mirror') }
    const failed: KernelResult = {
      ...kernel,
      kernel: 'b',
      interface: BAD,
      firewalls: { ...unmetCells('x'), nftables: cellOf(GOOD, 'no pod') },
    }
    const passed: KernelResult = { ...unmet, firewalls: { ...unmet.firewalls, nftables: cellOf(GOOD, DEMO) } }
    assert.deepEqual(problemsOf([unmet, passed]), [])
    assert.deepEqual(problemsOf([unmet]), ['no cell has passed'])
    assert.deepEqual(problemsOf([unmet, failed]), ['b: a.test.ts > x', 'b with nftables: demo: no pod'])
    assert.equal(formatCell(unmet.firewalls.nftables), 'unmet: no mirror')
  })
})

describe('a program with another loader', () => {
  it('is started by it', () => {
    const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-loader-'))
    try {
      const program = readFileSync(process.execPath)
      const own = /\/lib\S*?\/ld-linux-[\w-]+\.so\.\d/.exec(program.subarray(0, 4096).toString('latin1'))?.[0] ?? ''
      const changed = join(folder, 'program')
      // Another path of the same loader.
      writeFileSync(changed, withInterpreter(program, `/./${own}`), { mode: 0o755 })
      assert.match(execFileSync(changed, ['--version'], { encoding: 'utf8' }), /^v\d/)
      writeFileSync(changed, withInterpreter(program, '/nowhere/loader'), { mode: 0o755 })
      assert.throws(() => execFileSync(changed, ['--version']), /ENOENT/)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
  it('is refused where it is none', () => {
    for (const bytes of ['', '#!/bin/sh\n'.padEnd(100)])
      assert.throws(() => withInterpreter(Buffer.from(bytes), '/x'), /no 64-bit ELF program/)
    assert.throws(
      () => withInterpreter(Buffer.from('\x7fELF\x02'.padEnd(100, '\0'), 'latin1'), '/x'),
      /asks for no loader/,
    )
  })
})

test('user-mode Linux of another release has its own libraries, and the programs before it do not', () => {
  const kernel = { kind: 'uml', kernel: '/k/linux', memoryFolder: '/dev/shm', memoryMiB: 64 } as const
  const words = (libraries?: string): readonly string[] =>
    userModeGuest({ ...kernel, ...(libraries === undefined ? {} : { libraries }) }, {})
      .command('/f')
      .argv.slice(0, 3)
  assert.deepEqual(words('/k/lib'), ['env', 'LD_LIBRARY_PATH=/k/lib', '/k/linux'])
  assert.equal(words()[0], '/k/linux')
})
