/** A guest kernel and a command for it: what all kinds of guests have in common. */
import type { makeGuestFolder } from './guest-folder.ts'

export interface KernelCommand {
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** The whole run, boot included, in milliseconds. 0 = no limit: only for a session that a person ends. */
  readonly timeoutMs: number
  /** Ends the command (SIGTERM); everything is killed after `graceMs`. */
  readonly signal: AbortSignal
  readonly graceMs?: number
  /** Folders in which changes made on the host must be seen at once. */
  readonly liveFolders?: readonly string[]
  /** For the kernel's command line: `ipv6.disable=1`. The host's own kernel takes none. */
  readonly kernelParameters?: readonly string[]
  /**
   * The guest is as a node with a stock RHEL 10: its kernel has no ip_set, xtables, nft_compat and
   * nft_fib and cannot load them, and no folder has a program of iptables, ipset or nftables; nft is
   * in a folder that nobody looks in, which the variable KUBE_IPVS_OUT_OF_PATH names. Only where
   * `canBeBare`; default false.
   */
  readonly isBare?: boolean
  /**
   * The one processor of this machine that everything runs on; a guest has one processor then.
   * Absent: a guest has two, and they run where this machine's scheduler puts them.
   */
  readonly processor?: OneProcessor
  stdout(chunk: Buffer): void
  stderr(chunk: Buffer): void
}

/** A processor of this machine, by its number. */
export interface OneProcessor {
  readonly number: number
  /**
   * The whole guest goes before other work on this processor (the best niceness, of the process and
   * of its session). Real-time priority would stop a guest that works for a whole second for 50 ms,
   * on Linux before 6.12 and with CONFIG_RT_GROUP_SCHED also later. Inside the guest nothing
   * changes. It is not used for a command in namespaces, whose processes would no longer share the
   * processor as usual.
   */
  readonly hasPriority: boolean
}

/** The start of a command line that goes before other work; needs root's rights. */
export const BEFORE_OTHERS: readonly string[] = ['nice', '-n', '-20']

/**
 * The same for a guest. Linux divides a processor among sessions before it looks at the niceness of
 * their processes (sched(7), autogroup), and a guest is a session, so the session gets the best
 * niceness too.
 */
const GUEST_BEFORE_OTHERS = [
  'sh',
  '-c',
  '{ echo -20 >/proc/self/autogroup; } 2>/dev/null; exec "$@"',
  'sh',
  ...BEFORE_OTHERS,
]

/** The start of a command line: the rest of the command and all its children run on one processor. */
export function onProcessor(processor: OneProcessor | undefined): readonly string[] {
  if (processor === undefined) return []
  return ['taskset', '--cpu-list', String(processor.number), ...(processor.hasPriority ? GUEST_BEFORE_OTHERS : [])]
}

/** How many processors a guest has: see `KernelCommand.processor`. */
export const guestProcessors = (processor: OneProcessor | undefined): number => (processor === undefined ? 2 : 1)

/** How one kind of guest is started. File descriptors: 1 and 2 console, 3 stdout, 4 stderr, 5 control. */
export interface Guest {
  readonly settings: Parameters<typeof makeGuestFolder>[0]
  /** The time limit until the guest reports that it is ready. */
  readonly bootTimeoutMs: number
  command(folder: string): { readonly argv: readonly string[]; readonly env: NodeJS.ProcessEnv }
}
