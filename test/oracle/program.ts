/**
 * The program under test as a child process of a case: start, stop, cleanup, and how it ended. It
 * never outlives its case.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const STOP_MS = 10_000
const CLEANUP_MS = 60_000
const LOG_LINES = 30

export class Program {
  readonly #entry: string
  readonly #configFile: string
  readonly #logFile: string
  #child: ChildProcess | undefined
  #ended: Promise<void> = Promise.resolve()
  /** Of the cleanup in this step. */
  #cleanup: string | undefined

  constructor(entry: string, configFile: string, logFile: string) {
    this.#entry = entry
    this.#configFile = configFile
    this.#logFile = logFile
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** The lines of process.txt: '' while it runs and no cleanup ran. */
  get facts(): string {
    if (this.#cleanup !== undefined) return `${this.#cleanup}\n`
    if (this.#child === undefined) return 'not running\n'
    const { exitCode, signalCode } = this.#child
    if (exitCode === null && signalCode === null) return ''
    return `exited by itself with ${exitCode === null ? `signal ${signalCode}` : `code ${exitCode}`}\n`
  }

  /** The end of its log. */
  get logTail(): string[] {
    if (!existsSync(this.#logFile)) return []
    return readFileSync(this.#logFile, 'utf8').trimEnd().split('\n').slice(-LOG_LINES)
  }

  beginStep(): void {
    this.#cleanup = undefined
  }

  start(): void {
    // kube-proxy accepts every externalIP, which here needs an option (row 55): with it every
    // recording can be compared.
    const child = this.#spawn(['--config', this.#configFile, '-v', '2', '--allow-protected-external-ips'])
    this.#child = child
    this.#ended = endOf(child)
  }

  /** SIGTERM, and SIGKILL if that does not help. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    child.kill(signal)
    const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await this.#ended
    clearTimeout(late)
  }

  async cleanup(): Promise<void> {
    const child = this.#spawn(['cleanup', '--config', this.#configFile])
    const late = setTimeout(() => child.kill('SIGKILL'), CLEANUP_MS)
    await endOf(child)
    clearTimeout(late)
    this.#cleanup = `cleanup: exit ${child.exitCode ?? child.signalCode}`
  }

  /** Resolves when it has ended or `done` returns true. */
  async untilReady(done: () => boolean, deadlineMs: number): Promise<void> {
    for (const lateMs = performance.now() + deadlineMs; performance.now() < lateMs && this.isRunning && !done(); )
      await sleep(50)
  }

  #spawn(args: readonly string[]): ChildProcess {
    const log = openSync(this.#logFile, 'a')
    const child = spawn(process.execPath, [this.#entry, ...args], { stdio: ['ignore', log, log] })
    closeSync(log)
    return child
  }
}

function endOf(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
}
