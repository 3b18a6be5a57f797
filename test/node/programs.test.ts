/** Running programs of the host: input and output, exit codes, deadline, abort, missing programs. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { after, test } from 'node:test'
import { findProgram, runProgram, searchPath } from '../../src/node/programs.ts'
import { until } from '../support/deadline.ts'

const folder = mkdtempSync(`${tmpdir()}/programs-`)
after(() => rmSync(folder, { recursive: true }))
const signal = new AbortController().signal

function script(name: string, body: string): string {
  const file = `${folder}/${name}`
  writeFileSync(file, `#!/bin/sh\n${body}\n`)
  chmodSync(file, 0o755)
  return file
}

/** Whether a process exists and is no zombie. */
function isRunning(processId: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${processId}/status`, 'utf8'))
  } catch {
    return false
  }
}

test('runProgram passes arguments and input unchanged, without a shell', async () => {
  const program = script('echo-all', 'printf "%s|" "$@"; cat; echo problem >&2; exit 3')
  const args = ['a b', '$(touch /tmp/x); "', "'", '']
  const result = await runProgram({ program, args, input: 'line 1\nline 2\n', signal })
  assert.deepEqual(result, { exitCode: 3, output: `${args.join('|')}|line 1\nline 2\n`, errorText: 'problem\n' })
})

test('runProgram succeeds if the program ends without reading a long input', async () => {
  const result = await runProgram({ program: script('deaf', 'exit 0'), args: [], input: 'x'.repeat(4 << 20), signal })
  assert.equal(result.exitCode, 0)
})

test('runProgram returns output that exceeds the capacity of a pipe', async () => {
  const program = script('talker', 'head -c 3000000 /dev/zero | tr "\\0" x')
  assert.equal((await runProgram({ program, args: [], signal })).output.length, 3_000_000)
})

test('runProgram kills a program at the deadline, even if a child of it keeps its output open', async () => {
  const program = script('hanging', 'sleep 30 & wait')
  const started = performance.now()
  await assert.rejects(runProgram({ program, args: [], deadlineMs: 200, signal }), {
    code: 'program-timeout',
    message: `${program} did not end within 0.2 s and was killed`,
  })
  assert.ok(performance.now() - started < 10_000)
})

test('runProgram rejects at an abort and at the deadline only when the process is dead', async () => {
  const program = script('sleeping', 'exec sleep 300')
  const started: number[] = []
  const onStart = (processId: number): void => void started.push(processId)
  const stopped = new AbortController()
  const aborted = runProgram({ program, args: [], signal: stopped.signal, onStart })
  stopped.abort(new Error('enough'))
  await assert.rejects(aborted, /enough/)
  await assert.rejects(runProgram({ program, args: [], deadlineMs: 50, signal, onStart }), { code: 'program-timeout' })
  assert.equal(started.length, 2)
  for (const processId of started) assert.equal(existsSync(`/proc/${processId}`), false)
})

test('runProgram with descendants kills a program and its children at an abort and when this process exits', async () => {
  const program = script('parent', `sleep 300 & echo $! >"${folder}/child"; wait`)
  const childOf = (): number => Number(readFileSync(`${folder}/child`, 'utf8'))
  const stopped = new AbortController()
  const reason = new Error('we stop')
  const run = runProgram({ program, args: [], withDescendants: true, signal: stopped.signal })
  await until('the child runs', () => existsSync(`${folder}/child`) && childOf() > 0)
  stopped.abort(reason)
  await assert.rejects(run, reason)
  await until('the child has ended', () => !isRunning(childOf()))
  rmSync(`${folder}/child`)
  const source = `
    const { runProgram } = await import(${JSON.stringify(new URL('../../src/node/programs.ts', import.meta.url).href)})
    const { existsSync } = await import('node:fs')
    const signal = new AbortController().signal
    runProgram({ program: ${JSON.stringify(program)}, args: [], deadlineMs: 60_000, withDescendants: true, signal }).catch(() => {})
    while (!existsSync(${JSON.stringify(`${folder}/child`)})) await new Promise(setImmediate)
    process.exit(0)`
  const { exitCode } = await runProgram({
    program: process.execPath,
    args: ['--input-type=module', '-e', source],
    signal,
  })
  assert.equal(exitCode, 0)
  await until('the child has ended', () => !isRunning(childOf()))
})

test('runProgram passes exactly the given environment', async () => {
  const program = script('environment', '/usr/bin/env')
  const { output } = await runProgram({ program, args: [], env: { ONLY: 'this' }, signal })
  assert.match(output, /^ONLY=this$/m)
  assert.doesNotMatch(output, /^LC_ALL=/m)
})

test('runProgram rejects with the reason of an abort, before and after the start', async () => {
  const program = script('sleeping', 'exec sleep 30')
  const reason = new Error('we stop')
  await assert.rejects(runProgram({ program, args: [], signal: AbortSignal.abort(reason) }), reason)
  const stopped = new AbortController()
  const pids: number[] = []
  const run = runProgram({ program, args: [], signal: stopped.signal, onStart: (id) => pids.push(id) })
  assert.equal(pids.length, 1)
  stopped.abort(reason)
  await assert.rejects(run, reason)
})

test('runProgram names the reason when the process has no file descriptors left', () => {
  // A separate process, which opens as many descriptors as it may.
  const script = `
    import { openSync } from 'node:fs'
    import { runProgram } from ${JSON.stringify(new URL('../../src/node/programs.ts', import.meta.url).href)}
    console.log('')
    try { for (;;) openSync('/dev/null') } catch {}
    const call = { program: '/bin/true', args: [], signal: new AbortController().signal }
    await runProgram(call).then(() => console.log('it ran'), (error) => console.log(error.code, error.message))`
  const command = 'ulimit -n 60 && exec "$0" --input-type=module -e "$1"'
  const output = execFileSync('sh', ['-c', command, process.execPath, script], { encoding: 'utf8' })
  assert.match(output, /^program-failed \/bin\/true cannot be started: .*EMFILE/m)
})

test('runProgram rejects if the program does not exist or cannot be executed', async () => {
  await assert.rejects(runProgram({ program: `${folder}/none`, args: [], signal }), { code: 'program-missing' })
  writeFileSync(`${folder}/text`, 'no program')
  await assert.rejects(runProgram({ program: `${folder}/text`, args: [], signal }), { code: 'program-failed' })
})

test('runProgram returns the exit code -1 for a program that a signal ended', async () => {
  assert.equal((await runProgram({ program: script('suicide', 'kill -9 $$'), args: [], signal })).exitCode, -1)
})

test('findProgram returns the first executable file', () => {
  const program = script('findme', 'exit 0')
  writeFileSync(`${folder}/not-executable`, '')
  assert.equal(findProgram('findme', ['/nowhere', folder]), program)
  assert.equal(findProgram('not-executable', [folder]), undefined)
  assert.equal(findProgram('none', [folder]), undefined)
})

test('searchPath adds the folders of administrators, lists each folder once and drops relative ones', () => {
  assert.deepEqual(searchPath('/opt/bin:/usr/sbin::bin:/opt/bin').slice(0, 3), [
    '/opt/bin',
    '/usr/sbin',
    '/usr/local/sbin',
  ])
  assert.ok(searchPath(undefined).includes('/usr/sbin'))
})
