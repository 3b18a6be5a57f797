import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'

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
    let output = ''
    let errors = ''
    child.stderr.on('data', (chunk) => (errors += chunk))
    const printed = async (text: string): Promise<void> => {
      while (!output.endsWith(`${text} `)) output += String((await once(child.stdout, 'data'))[0])
    }
    await printed('ready')
    // Without a handler this would open node's debugger.
    child.kill('SIGUSR1')
    child.kill(signal)
    await printed(signal)
    const exit = once(child, 'exit')
    child.kill(signal)
    assert.deepEqual(await exit, [code, null])
    assert.equal(errors, '')
  })
