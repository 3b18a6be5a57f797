/**
 * A process as a container runtime starts it: its own mounts over a read-only root, the standard
 * read-only and hidden paths, exactly the given capabilities, and the default seccomp profile. It
 * stays in the caller's network namespace, as with hostNetwork.
 */

/** Numbers of linux/capability.h by the names that Kubernetes uses. */
export const CAPABILITIES = {
  CHOWN: 0,
  DAC_OVERRIDE: 1,
  DAC_READ_SEARCH: 2,
  NET_BIND_SERVICE: 10,
  NET_ADMIN: 12,
  NET_RAW: 13,
  SYS_MODULE: 16,
  SYS_CHROOT: 18,
  SYS_ADMIN: 21,
  SYS_RESOURCE: 24,
} as const
export type Capability = keyof typeof CAPABILITIES

/** A folder or file of this machine at a path of the container. */
export interface Mount {
  readonly source: string
  readonly target: string
  readonly readOnly: boolean
}

export interface Container {
  /** `privileged: true` of Kubernetes: every capability, no seccomp, /proc/sys and /sys writable. Default false. */
  readonly privileged?: boolean
  /** The only capabilities of the process; without effect when it is privileged. */
  readonly capabilities: readonly Capability[]
  /** `allowPrivilegeEscalation`; default false. */
  readonly mayGainPrivileges?: boolean
  /** `seccompProfile: RuntimeDefault`; default true. */
  readonly hasSeccompProfile?: boolean
  /** The kernel ends the process at a system call that the profile refuses, except these. Absent: such a call fails. */
  readonly toleratedCalls?: readonly string[]
  /** Folder with the root file system of an image; default: this machine's, read-only. */
  readonly root?: string
  /** `readOnlyRootFilesystem`, default true. */
  readonly isRootReadOnly?: boolean
  /** In the order in which they are made. Without `root` each target is below /run. */
  readonly mounts?: readonly Mount[]
}

const START = new URL('./container-start.ts', import.meta.url).pathname

/**
 * The command line that runs `command` in the container, as the same process: signals and exit
 * codes are its own.
 * @param command absolute path of the program inside the container, and its arguments
 */
export function inContainer(container: Container, command: readonly string[]): readonly [string, ...string[]] {
  return [process.execPath, START, JSON.stringify(container), ...command]
}
