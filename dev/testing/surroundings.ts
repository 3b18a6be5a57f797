/**
 * What test files share, and what one of them might leave behind: processes, network namespaces,
 * mounts, variables of the environment, the working folder, listeners for signals, replaced
 * globals. A file that leaves something disturbs those that run after it.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** A process that was killed, or a namespace that was deleted, may still be there for a moment. */
const PATIENCE_MS = 5_000
const PAUSE_MS = 20
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'uncaughtException', 'unhandledRejection'] as const

/** Replaced by fake timers and by tests of programs that ask for them. Read before a test may replace it. */
const GLOBALS = ['setTimeout', 'setInterval', 'setImmediate', 'Date', 'fetch'] as const
const globals = new Map<string, unknown>(GLOBALS.map((name) => [name, globalThis[name]]))
const now = performance.now.bind(performance)

export class Surroundings {
  readonly #processes = processes()
  readonly #namespaces = networkNamespaces()
  readonly #mounts = mounts()
  readonly #environment = { ...process.env }
  readonly #folder = process.cwd()
  readonly #listeners = listenerCounts()

  /**
   * What is here that was not, or has changed, in words. Waits up to 5 s for processes, namespaces
   * and mounts that are ending.
   */
  async leftBehind(): Promise<readonly string[]> {
    for (const lateMs = now() + PATIENCE_MS; this.#objects().length > 0 && now() < lateMs; ) await sleep(PAUSE_MS)
    return [...this.#objects(), ...this.#settings()]
  }

  #objects(): readonly string[] {
    return [
      ...added(this.#processes, processes()).map(([id, command]) => `process ${id} (${command})`),
      ...added(this.#namespaces, networkNamespaces()).map(([name]) => `network namespace ${name}`),
      ...added(this.#mounts, mounts()).map(([place]) => `mount at ${place}`),
    ]
  }

  #settings(): readonly string[] {
    const names = new Set([...Object.keys(this.#environment), ...Object.keys(process.env)])
    const listeners = listenerCounts()
    return [
      ...[...names].filter((name) => process.env[name] !== this.#environment[name]).map((name) => `variable ${name}`),
      ...(process.cwd() === this.#folder ? [] : [`working folder ${process.cwd()}`]),
      ...SIGNALS.filter((name) => (listeners.get(name) ?? 0) > (this.#listeners.get(name) ?? 0)).map(
        (name) => `listener for ${name}`,
      ),
      ...GLOBALS.filter((name) => globalThis[name] !== globals.get(name)).map((name) => `replaced ${name}`),
    ]
  }
}

const added = <T>(before: ReadonlyMap<string, T>, after: ReadonlyMap<string, T>): [string, T][] =>
  [...after].filter(([key]) => !before.has(key))

/**
 * What a process and its descendants do, a line each: number, state (proc(5)), where it waits in
 * the kernel, command line.
 */
export function processTree(root: string): readonly string[] {
  const children = Map.groupBy(
    list('/proc').filter((name) => /^\d+$/.test(name)),
    parentOf,
  )
  const lines = (id: string): readonly string[] => [lineOf(id), ...(children.get(id) ?? []).flatMap(lines)]
  return lines(root)
}

const parentOf = (id: string): string => /^PPid:\s+(\d+)/m.exec(read(`/proc/${id}/status`))?.[1] ?? ''

function lineOf(id: string): string {
  const [, state = ''] = /^State:\s+(\S)/m.exec(read(`/proc/${id}/status`)) ?? []
  const command = read(`/proc/${id}/cmdline`)
    .replaceAll(/[\0\s]+/g, ' ')
    .trim()
    .slice(0, 200)
  return `${id} ${state} ${read(`/proc/${id}/wchan`)} ${command}`
}

/**
 * The children of this process that have not ended, with their command lines. In a process
 * namespace of its own (its parent is the first process there), those whose parent has ended count
 * too.
 */
function processes(): ReadonlyMap<string, string> {
  const ids =
    process.ppid === 1
      ? list('/proc').filter((name) => /^\d+$/.test(name))
      : list('/proc').filter((name) => /^\d+$/.test(name) && parentOf(name) === String(process.pid))
  const commands = ids.map((id) => [id, read(`/proc/${id}/cmdline`).replaceAll('\0', ' ').trim()] as const)
  // One that has ended and is not yet waited for has no command line.
  return new Map(commands.filter(([, command]) => command !== ''))
}

const networkNamespaces = (): ReadonlyMap<string, true> => new Map(list('/run/netns').map((name) => [name, true]))

/**
 * Places at which something is mounted (proc(5), mountinfo), without the folder that ip(8) makes
 * for namespaces and keeps.
 */
function mounts(): ReadonlyMap<string, true> {
  const places = read('/proc/self/mountinfo')
    .split('\n')
    .flatMap((line) => line.split(' ')[4] ?? [])
  return new Map(places.filter((place) => place !== '/run/netns').map((place) => [place, true]))
}

const listenerCounts = (): ReadonlyMap<string, number> =>
  new Map(SIGNALS.map((name) => [name, process.listenerCount(name)]))

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function list(path: string): readonly string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}
