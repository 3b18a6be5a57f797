/**
 * Other service proxies that run on this node, found by the names of processes in /proc. Of two
 * proxies each undoes what the other writes. Names are those that the processes chose, so they are
 * only a hint for a person.
 * @impure
 */
import { closeSync, constants, openSync, readdirSync, readlinkSync, readSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { newBudget } from '../values/event-loop.ts'

export interface ProxyProcess {
  readonly pid: number
  /** As the kernel has it: at most 15 bytes, any characters. */
  readonly name: string
}

export interface OtherProxies {
  readonly found: readonly ProxyProcess[]
  /** Why there may be others that this process cannot see; undefined: it sees every process of the host. */
  readonly hidden: string | undefined
}

export interface FindOptions {
  /**
   * Processes that are reported whatever their name is, because a netlink socket with their number
   * changed our items.
   */
  readonly writers?: readonly number[]
  /** Default '/proc'. */
  readonly proc?: string
  /** Processes that are not reported. Default: this one and its parent, which may be its launcher. */
  readonly own?: readonly number[]
}

/** kube-proxy runs inside of `k3s` and `kubelite` (MicroK8s). */
const NAMES = new Set(['kube-proxy', 'kube-router', 'kube-ipvs', 'kubelite', 'k3s', 'k3s-server', 'k3s-agent'])
/**
 * Names of a Node.js process. Only of these the command line is read: reading it waits for a
 * process that hangs in the kernel.
 */
const NODE = new Set(['node', 'MainThread'])
const OURS = /(^|\/)kube-ipvs(\.mjs)?(\/|$)/
/** The kernel's default limit is 32,768 processes. */
const MAX_PROCESSES = 100_000
const MAX_FOUND = 10
/** `pid:[…]` of the first PID namespace of a kernel (PROC_PID_INIT_INO). */
const HOST_PIDS = 'pid:[4026531836]'

/**
 * The other proxies in our network namespace. Never rejects: what cannot be read is left out. Names
 * are read synchronously, because a way through the thread pool for each process takes many times
 * as long as the kernel.
 */
export async function findOtherProxies(options: FindOptions = {}): Promise<OtherProxies> {
  const { proc = '/proc', own = [process.pid, process.ppid], writers = [] } = options
  const found: ProxyProcess[] = []
  const budget = newBudget()
  for (const pid of processesOf(proc)) {
    if (found.length === MAX_FOUND) break
    if (budget.spent()) await budget.turn()
    if (own.includes(pid)) continue
    const name = readName(`${proc}/${pid}`)
    if (name === undefined) continue
    const isProxy = NAMES.has(name) || (NODE.has(name) && (await isDaemon(`${proc}/${pid}`)))
    if ((isProxy || writers.includes(pid)) && sharesNetwork(proc, pid))
      found.push({ pid, name: isProxy && NODE.has(name) ? 'kube-ipvs' : name })
  }
  return { found, hidden: hiddenReason(proc) }
}

function processesOf(proc: string): readonly number[] {
  try {
    return readdirSync(proc)
      .filter((name) => /^[1-9]\d{0,9}$/.test(name))
      .map(Number)
      .slice(0, MAX_PROCESSES)
  } catch {
    return []
  }
}

/** Commands of this program that write nothing to the kernel for long, but may run for long. */
const COMMANDS = new Set(['status', 'diff', 'doctor', 'explain', 'top', 'drain', 'completion'])

/**
 * Whether a Node.js process is this program as a daemon: the first argument that is no option is
 * the file that it runs.
 */
async function isDaemon(folder: string): Promise<boolean> {
  const [, ...args] = (await readCommandLine(folder)).split('\0')
  const [script = '', ...words] = args.filter((arg) => !arg.startsWith('-'))
  return OURS.test(script) && !words.some((word) => COMMANDS.has(word))
}

/** The kube-proxy of a cluster whose nodes are containers on this host is visible too, and has a network of its own. */
function sharesNetwork(proc: string, pid: number): boolean {
  const [own, its] = ['self', pid].map((who) => linkText(`${proc}/${who}/ns/net`))
  // Without CAP_SYS_PTRACE this link of another user's process cannot be read.
  return own === undefined || its === undefined || own === its
}

/** Why this process may not see every process of the host; undefined: it sees them all. */
export function hiddenReason(proc: string): string | undefined {
  const namespace = linkText(`${proc}/self/ns/pid`)
  if (namespace !== undefined && namespace !== HOST_PIDS)
    return 'this process is in a PID namespace of its own and sees no process outside of it (hostPID: true in a pod)'
  // With hidepid=1 the file cannot be opened, with hidepid=2 it does not exist.
  return readName(`${proc}/1`) === undefined ? '/proc is mounted with hidepid' : undefined
}

function linkText(link: string): string | undefined {
  try {
    return readlinkSync(link)
  } catch {
    return undefined
  }
}

/**
 * Neither of these files may be a symbolic link: in a test folder, or below a mount that somebody
 * else made, it could lead anywhere.
 */
const READ = constants.O_RDONLY | constants.O_NOFOLLOW

/** Bytes of a file that are read. */
const LONGEST = 4096

/** @param folder of the process in /proc */
function readName(folder: string): string | undefined {
  let file: number | undefined
  try {
    file = openSync(`${folder}/comm`, READ)
    const buffer = Buffer.alloc(LONGEST)
    return buffer.toString('utf8', 0, readSync(file, buffer)).trimEnd()
  } catch {
    return undefined
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/**
 * The first 4 KiB; '' when it cannot be read. In the thread pool, because the kernel may let this
 * wait for the process.
 */
async function readCommandLine(folder: string): Promise<string> {
  try {
    const handle = await open(`${folder}/cmdline`, READ)
    try {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(LONGEST), 0, LONGEST, 0)
      return buffer.toString('utf8', 0, bytesRead)
    } finally {
      await handle.close()
    }
  } catch {
    return ''
  }
}
