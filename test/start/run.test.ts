import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { eventually } from '../support/deadline.ts'

/** A program that runs on after the first signal. */
const CHILD = `
import { endSignal } from ${JSON.stringify(new URL('../../src/start/run.ts', import.meta.url).href)}
const { ended: signal } = endSignal()
setInterval(() => {}, 1000)
process.stdout.write('ready ')
process.stdout.write(await signal + ' ')
`

for (const [signal, code] of [
  ['SIGTERM', 143],
  ['SIGINT', 130],
  ['SIGHUP', 129],
] as const)
  test(`endSignal resolves with ${signal}, and a second one ends the process at once`, async () => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', CHILD], { stdio: ['ignore', 'pipe', 'pipe'] })
    let [output, errors] = ['', '']
    child.stdout.on('data', (chunk) => (output += chunk))
    child.stderr.on('data', (chunk) => (errors += chunk))
    const ended = once(child, 'exit')
    const printed = (text: string): Promise<void> =>
      eventually(() => {
        assert.deepEqual([child.exitCode, child.signalCode], [null, null], errors)
        assert.ok(output.endsWith(`${text} `), output)
      })
    await printed('ready')
    // Without a handler this would open node's debugger.
    child.kill('SIGUSR1')
    child.kill(signal)
    await printed(signal)
    child.kill(signal)
    assert.deepEqual(await ended, [code, null])
    assert.equal(errors, '')
  })
