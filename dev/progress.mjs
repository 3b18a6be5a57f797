/**
 * What the parts of the bootstrap share: the project's folder, progress on stderr, and running a
 * program to its end.
 */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export const projectFolder = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '')

/** Something that the machine lacks and only its user can provide; the message says how. */
export class Unmet extends Error {}

/** @param {string} text */
export function say(text) {
  process.stderr.write(`${text}\n`)
}

/** Programs that `finish` runs, and what ends them. @type {Map<import('node:child_process').ChildProcess, NodeJS.Signals>} */
const running = new Map()
let isStopped = false

/**
 * Ends the programs that `finish` runs, and lets it start no others: this process was told to end,
 * and cleans up first.
 */
export function stopPrograms() {
  isStopped = true
  for (const [child, signal] of running) child.kill(signal)
}

/**
 * Runs a program to its end and returns its exit code and what it printed (stdout and stderr in
 * order).
 * @param {string} program @param {string[]} args @param {{ env?: NodeJS.ProcessEnv, cwd?: string,
 * timeoutMs?: number, killSignal?: NodeJS.Signals }} [options] SIGKILL ends programs that ignore SIGTERM, as unshare(1) does
 * @returns {Promise<{ code: number, output: string }>}
 */
export function finish(program, args, { env = process.env, cwd, timeoutMs = 600_000, killSignal = 'SIGTERM' } = {}) {
  return new Promise((resolve) => {
    if (isStopped) return resolve({ code: 124, output: `${program}: stopped` })
    const child = spawn(program, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] })
    // Not spawn's own timeout, which goes on after a program that is not there and keeps this process alive.
    const timer = setTimeout(() => child.kill(killSignal), timeoutMs)
    running.set(child, killSignal)
    let output = ''
    const keep = (chunk) => {
      output += chunk
    }
    child.stdout.on('data', keep)
    child.stderr.on('data', keep)
    const end = (result) => {
      clearTimeout(timer)
      running.delete(child)
      resolve(result)
    }
    child.once('error', (error) => end({ code: 127, output: `${program}: ${error.message}` }))
    child.once('close', (code) => end({ code: code ?? 124, output }))
  })
}

/** The last lines of a long output. @param {string} output */
export const tail = (output, lines = 15) => output.trimEnd().split('\n').slice(-lines).join('\n')
