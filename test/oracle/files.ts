/** The files of a recorded state, and which of them are compared. A file that is not in COMPARED is not read either. */

/** Every file of `recorded/MODE/N/` that describes the node; objects.json is the input. */
export const STATE_FILES = [
  'ipvs.txt',
  'addresses.txt',
  'ipset.txt',
  'iptables.txt',
  'ip6tables.txt',
  'sysctl.txt',
  'listeners.txt',
  'nfacct.txt',
  'conntrack.txt',
  'process.txt',
] as const

export type StateFile = (typeof STATE_FILES)[number]

/** The files that are compared: all of them. */
export const COMPARED: readonly StateFile[] = STATE_FILES

/** The modes whose recordings can be run. */
export const MODES = ['ipvs', 'iptables'] as const

export type Mode = (typeof MODES)[number]

/** The state of a node as normalised text, by file. Absent: not taken. */
export type State = Partial<Readonly<Record<StateFile, string>>>

export const isStateFile = (name: unknown): name is StateFile => STATE_FILES.some((file) => file === name)

/**
 * `fresh`: a case runs in a new network namespace. `kernel`: it runs in the kernel's first one,
 * where the size of the conntrack table can be set, and clears it.
 */
export type Ground = 'fresh' | 'kernel'
