/**
 * The programs that the demo starts (pods, client, daemon) and stops before it ends. Everything
 * runs in the demo's own kernel or process namespace, which ends whatever is left.
 */
import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { patience } from './patience.ts'
import { NODE } from './topology.ts'

const IN_NAMESPACE = join(import.meta.dirname, 'in-namespace.ts')
const START_MS = patience(30_000)
const STOP_MS = 3000

export type Child = ChildProcessByStdio<Writable, Readable, Readable>

export class Children {
  readonly #running = new Set<ChildProcess>()

  start(command: readonly string[], env: NodeJS.ProcessEnv = process.env): Child {
    const [program = '', ...args] = command
    const child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
    this.#running.add(child)
    child.once('exit', () => this.#running.delete(child))
    child.stdin.on('error', () => undefined) // it has ended, which the caller sees by its missing answer
    return child
  }

  /** Starts in-namespace.ts with these arguments in a namespace and waits until it prints `ready`. */
  async startIn(namespace: string, ...args: string[]): Promise<Child> {
    const child = this.start(['ip', 'netns', 'exec', namespace, process.execPath, IN_NAMESPACE, ...args])
    let errors = ''
    child.stderr.on('data', (chunk: Buffer) => {
      errors += chunk.toString()
    })
    const died = once(child, 'exit').then(() =>
      Promise.reject(new Error(`${args.join(' ')} ended in ${namespace}: ${errors}`)),
    )
    const ready = once(child.stdout, 'data', { signal: AbortSignal.timeout(START_MS) })
    await Promise.race([ready, died])
    died.catch(() => undefined)
    return child
  }

  /** Ends all of them: SIGTERM, then SIGKILL. */
  async close(): Promise<void> {
    const running = [...this.#running]
    const ends = running.map((child) => once(child, 'exit'))
    for (const child of running) child.kill('SIGTERM')
    const late = setTimeout(() => {
      for (const child of running) child.kill('SIGKILL')
    }, STOP_MS)
    await Promise.all(ends)
    clearTimeout(late)
  }
}

/** Starts the client; the function it resolves to requests a URL from the client's namespace. */
export async function startClient(
  children: Children,
  namespace: string,
): Promise<(url: string) => Promise<string | undefined>> {
  const child = await children.startIn(namespace, 'client')
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

const CONFIGURATION = {
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'ipvs',
  hostnameOverride: NODE.name,
  nodePortAddresses: ['primary'],
}

export interface Daemon {
  /** The end of its log. */
  log(): string
  /** Rejects when the daemon ends by itself. */
  readonly died: Promise<never>
}

/**
 * Starts the daemon as the image holds it: a bundle. From its sources Node would remove the types
 * with WebAssembly while the daemon works, and V8 ended such a process now and then in an emulated
 * machine ("Check failed: it->second.Size() > offset", below Runtime_WasmTriggerTierUp). Its warnings and errors are passed on; the end of
 * its log is kept.
 */
export function startDaemon(
  children: Children,
  {
    program,
    project,
    folder,
    firewall,
    complain,
  }: {
    /** What Node runs. */
    program: string
    project: string
    folder: string
    /** Of `kubeIPVS.firewall`; undefined: the daemon chooses. */
    firewall: string | undefined
    complain(line: string): void
  },
): Daemon {
  const file = join(folder, 'kube-ipvs.json')
  // The default path is for the daemon of the machine itself.
  const kubeIPVS = { socket: join(folder, 'kube-ipvs.sock'), ...(firewall === undefined ? {} : { firewall }) }
  writeFileSync(file, JSON.stringify({ ...CONFIGURATION, kubeIPVS }))
  const child = children.start([process.execPath, program, '--config', file, '--manifests', join(project, 'examples')])
  const lines: string[] = []
  child.stdout.resume()
  createInterface({ input: child.stderr }).on('line', (line) => {
    lines.push(line)
    if (lines.length > 200) lines.shift()
    if (/^[WEF]\d{4} /.test(line)) complain(line)
  })
  const died = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`the daemon ended with ${signal ?? `exit code ${code}`}:\n${lines.join('\n')}`)
  })
  died.catch(() => undefined) // for callers that do not await it
  return { log: () => lines.join('\n'), died }
}
