/** The real daemon as a child process in this network namespace, with its own folder of manifests. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NODE_FLAGS } from '../../dev/node-flags.ts'
import { firewallOfRun } from '../../dev/testing/firewalls.ts'
import { isBareGuest } from './bare-guest.ts'
import { deadline } from './deadline.ts'
import { runOwnCommand } from './own-command.ts'
import { MAIN } from './own-program.ts'
import { type Container, inContainer } from './container-runtime.ts'
import { type Manifest, node } from './manifests.ts'

/** Commands that ask a running daemon, and '' for the daemon itself. */
const ASKING: readonly string[] = ['', 'status', 'diff', 'explain', 'top', 'drain']

/** Commands that end by themselves, and of which nothing is left then. */
const QUICK: readonly string[] = ['status', 'diff', 'explain', 'top', 'drain', 'doctor', 'cleanup']

/** Until a process that was asked to end, or ends by itself, has ended. */
const LONGEST_END_MS = 60_000

export interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export class Workbench {
  readonly directory = mkdtempSync(join(tmpdir(), 'kube-ipvs-test-'))
  /** The local socket of its daemons: not the default one, because several daemons run on this machine. */
  socket = `${this.directory}.sock`
  #configuration: Readonly<Record<string, unknown>>
  readonly #running = new Set<ChildProcess>()
  /** Everything daemons have logged. */
  log = ''
  /** Added to the environment of each process that is started. */
  env: Readonly<Record<string, string>> = {}
  /** What node runs in each process that is started. */
  program = MAIN
  /** In which each process is started; undefined: as this process is. */
  container: Container | undefined

  constructor(ipvs: Readonly<Record<string, unknown>> = {}, more: Readonly<Record<string, unknown>> = {}) {
    this.#configuration = {
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      mode: 'ipvs',
      hostnameOverride: 'node0',
      ipvs: { syncPeriod: '1s', minSyncPeriod: '0s', ...ipvs },
    }
    this.#configuration = this.configure(more)
    this.write('node.yaml', node(['10.0.2.15']))
  }

  get #configurationFile(): string {
    return `${this.directory}.config.json`
  }

  /** Replaces a file at once: one that stays empty for long, on a busy machine, counts as one without objects. */
  write(name: string, ...objects: Manifest[]): void {
    const path = join(this.directory, name)
    writeFileSync(`${path}.new`, objects.map((object) => JSON.stringify(object)).join('\n---\n'))
    renameSync(`${path}.new`, path)
  }

  remove(name: string): void {
    rmSync(join(this.directory, name))
  }

  /** Starts the daemon. */
  start(...flags: string[]): ChildProcess {
    return this.#start(['--manifests', this.directory, '-v', '2', ...flags])
  }

  /** Starts the daemon with the verbosity of its configuration. */
  startQuietly(): ChildProcess {
    return this.#start(['--manifests', this.directory])
  }

  /** Starts the daemon on the API server of a kubeconfig. */
  startOnApi(kubeconfig: string, connection: object = {}, ...flags: string[]): ChildProcess {
    this.configure({ clientConnection: { kubeconfig, ...connection } })
    return this.#start(['-v', '2', ...flags])
  }

  /** A kubeconfig for an API server, as a file; `user` as kubeconfigs have it. */
  kubeconfig(server: string, user: object = {}): string {
    const path = join(this.directory, 'kubeconfig')
    const document = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    }
    writeFileSync(path, JSON.stringify(document))
    return path
  }

  /** Replaces the configuration file at once, with more fields; returns its content. */
  configure(more: Readonly<Record<string, unknown>>): Record<string, unknown> {
    const configuration: Record<string, unknown> = { ...this.#configuration, ...more }
    const firewall = firewallOfRun()
    // In a bare guest the daemon chooses by itself.
    if (firewall !== undefined && !isBareGuest)
      configuration['kubeIPVS'] = { firewall, ...Object(configuration['kubeIPVS']) }
    const path = this.#configurationFile
    writeFileSync(`${path}.new`, JSON.stringify(configuration))
    renameSync(`${path}.new`, path)
    return configuration
  }

  /** Path of the configuration file. */
  get configurationFile(): string {
    return this.#configurationFile
  }

  /** Waits for the end of a program that ends by itself, and for the last of its output; resolves to its exit code. */
  async ended(child: ChildProcess): Promise<number | null> {
    const code = await exitCode(child)
    for (const output of [child.stdout, child.stderr])
      if (output !== null && !output.closed) await once(output, 'close')
    this.#running.delete(child)
    return code
  }

  #start(flags: readonly string[]): ChildProcess {
    const child = this.#spawn(['--config', this.#configurationFile, '--socket', this.socket, ...flags])
    this.#running.add(child)
    child.stderr?.on('data', (chunk) => {
      this.log += chunk
    })
    return child
  }

  /**
   * Runs a command to its end: `diff`, `cleanup`, `status`, or '' for the daemon with --once.
   */
  async command(command: string, ...flags: string[]): Promise<Finished> {
    const sources = command === 'status' ? [] : ['--config', this.#configurationFile]
    if (ASKING.includes(command)) sources.push('--socket', this.socket)
    if (command === '' || command === 'diff') sources.push('--manifests', this.directory)
    const args = [...(command === '' ? [] : [command]), ...sources, ...flags]
    return this.run(...args)
  }

  /** Starts a command that runs until it is stopped. */
  spawnCommand(command: string, ...flags: string[]): ChildProcess {
    const child = this.#spawn([command, '--socket', this.socket, ...flags])
    this.#running.add(child)
    return child
  }

  /** The same in a terminal of this size; its output is what the terminal gets. */
  inTerminal(columns: number, rows: number, command: string, ...flags: string[]): ChildProcess {
    const words = [process.execPath, this.program, command, '--socket', this.socket, ...flags]
    const shell = `stty cols ${columns} rows ${rows}; exec ${words.map((word) => `'${word}'`).join(' ')}`
    const child = spawn('script', ['-qec', shell, '/dev/null'], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...this.env, TERM: 'xterm' },
    })
    this.#running.add(child)
    return child
  }

  /**
   * Runs the program to its end with exactly these arguments. Most commands run in this process,
   * unless this workbench has a container or an environment of its own;
   * test/kernel/commands.test.ts compares both ways.
   */
  async run(...args: string[]): Promise<Finished> {
    const isOwn = QUICK.includes(args[0] ?? '') && this.container === undefined && Object.keys(this.env).length === 0
    return isOwn ? runOwnCommand(args) : this.runProcess(...args)
  }

  /** The same in a process of its own. */
  async runProcess(...args: string[]): Promise<Finished> {
    return finished(this.#spawn(args))
  }

  #spawn(args: string[]): ChildProcess {
    const command = [process.execPath, ...NODE_FLAGS, this.program, ...args] as const
    const [program, ...more] = this.container === undefined ? command : inContainer(this.container, command)
    return spawn(program, more, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...this.env },
    })
  }

  /** Ends a daemon; resolves to its exit code. */
  async stop(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    const ended = exitCode(child)
    child.kill(signal)
    const code = await ended
    this.#running.delete(child)
    return code
  }

  async close(): Promise<void> {
    for (const child of this.#running) await this.stop(child, 'SIGKILL')
    rmSync(this.directory, { recursive: true, force: true })
    rmSync(this.#configurationFile, { force: true })
    rmSync(this.socket, { force: true })
  }
}

/** null: a signal ended it. Rejects when it does not end. */
function exitCode(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode)
  return new Promise((resolve, reject) => {
    const limitMs = deadline(LONGEST_END_MS)
    const late = setTimeout(
      () => reject(new Error(`process ${child.pid} did not end within ${limitMs} ms: ${child.spawnargs.join(' ')}`)),
      limitMs,
    )
    child.once('exit', (code) => {
      clearTimeout(late)
      resolve(code)
    })
  })
}

async function finished(child: ChildProcess): Promise<Finished> {
  let stdout = ''
  let stderr = ''
  child.stdout?.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr?.on('data', (chunk) => {
    stderr += chunk
  })
  const code = await new Promise<number | null>((resolve) => child.on('close', (exit) => resolve(exit)))
  return { code, stdout, stderr }
}
