/**
 * The programs that the demo starts, and their end: none outlives it.
 * What could break: everything runs in the demo's own kernel or process namespace, which is the last line of defence.
 */
import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'

const startMs = 30_000
const stopMs = 3000

export type Child = ChildProcessByStdio<Writable, Readable, Readable>

export class Children {
  readonly #running = new Set<ChildProcess>()

  start(command: readonly string[], env: NodeJS.ProcessEnv = process.env): Child {
    const [program = '', ...args] = command
    const child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
    this.#running.add(child)
    child.once('exit', () => this.#running.delete(child))
    child.stdin.on('error', () => undefined) // it has ended; whoever waits for an answer sees that
    return child
  }

  /** Starts a program in a namespace and waits until it prints `ready`. */
  async startIn(namespace: string, file: string, ...args: string[]): Promise<Child> {
    const child = this.start(['ip', 'netns', 'exec', namespace, process.execPath, file, ...args])
    let errors = ''
    child.stderr.on('data', (chunk: Buffer) => {
      errors += chunk.toString()
    })
    const died = once(child, 'exit').then(() => Promise.reject(new Error(`${file} ended in ${namespace}: ${errors}`)))
    const ready = once(child.stdout, 'data', { signal: AbortSignal.timeout(startMs) })
    await Promise.race([ready, died])
    died.catch(() => undefined)
    return child
  }

  /** Asks all to end, and makes them. */
  async close(): Promise<void> {
    const running = [...this.#running]
    const ends = running.map((child) => once(child, 'exit'))
    for (const child of running) child.kill('SIGTERM')
    const late = setTimeout(() => {
      for (const child of running) child.kill('SIGKILL')
    }, stopMs)
    await Promise.all(ends)
    clearTimeout(late)
  }
}

/** The client's namespace as a function: asks a URL from there. */
export async function startClient(
  children: Children,
  namespace: string,
  file: string,
): Promise<(url: string) => Promise<string | undefined>> {
  const child = await children.startIn(namespace, file)
  const waiting: ((answer: string | undefined) => void)[] = []
  createInterface({ input: child.stdout }).on('line', (line) => {
    const answer: unknown = JSON.parse(line)
    waiting.shift()?.(typeof answer === 'string' ? answer : undefined)
  })
  child.once('exit', () => {
    for (const resolve of waiting.splice(0)) resolve(undefined)
  })
  return (url) =>
    new Promise((resolve) => {
      waiting.push(resolve)
      child.stdin.write(`${url}\n`)
    })
}
