/**
 * Which kernel the kernel tests and the demo run on. `dev/bootstrap.mjs` chooses it, installs what
 * it needs, and passes it on in one environment variable, as JSON that `dev/kernel/choose.mjs`
 * writes.
 */
import { existsSync } from 'node:fs'

/** `host`: this machine's own kernel, in fresh namespaces. */
export interface HostKernel {
  readonly kind: 'host'
}
/**
 * A user-mode Linux binary; `modules` is the folder that holds its `VERSION/` module folder, absent
 * when the kernel has no modules.
 */
export interface UserModeKernel {
  readonly kind: 'uml'
  readonly kernel: string
  /**
   * `firewall`: the image in this repository, whose modules are ip_set, xtables, nft_compat and
   * nft_fib, and all others are built in. Absent: of Debian's kernel IPVS is a module too.
   */
  readonly modular?: 'firewall'
  /** The folder of the guest's memory file, which is mapped executable. */
  readonly memoryFolder: string
  readonly memoryMiB: number
  readonly modules?: string
  /** The folder of the libraries of the program, where this machine's are too old. */
  readonly libraries?: string
}
/** Debian's stock kernel in qemu; `modules` as above, `initialRamdisk` is built by the chooser. */
export interface QemuKernel {
  readonly kind: 'qemu'
  readonly kernel: string
  readonly modules: string
  readonly initialRamdisk: string
}
export type KernelChoice = HostKernel | UserModeKernel | QemuKernel

export const CHOICE_VARIABLE = 'KUBE_IPVS_CHOSEN_KERNEL'

/** The choice of the bootstrap; undefined when there is none (only with KUBE_IPVS_SKIP_KERNEL=1). */
export function chosenKernel(env: NodeJS.ProcessEnv): KernelChoice | undefined {
  const text = env[CHOICE_VARIABLE]
  if (text === undefined || text === '') return undefined
  return JSON.parse(text) as KernelChoice // written by our own bootstrap, never by a person
}

/** One line that describes the kernel, for people. */
export function describeKernel(choice: KernelChoice): string {
  switch (choice.kind) {
    case 'host':
      return "this machine's own kernel, in fresh namespaces"
    case 'uml':
      return `user-mode Linux ${choice.kernel}`
    case 'qemu':
      return `qemu with ${choice.kernel}`
  }
}

const DEBIAN = { kernel: '/usr/bin/linux.uml', modules: '/usr/lib/uml/modules' } as const

/**
 * A kernel whose IPVS is a module: the chosen one if it has modules, else Debian's user-mode Linux
 * if it is installed.
 */
export function kernelWithModules(choice: KernelChoice): KernelChoice | undefined {
  if (choice.kind === 'qemu') return choice
  if (choice.kind !== 'uml') return undefined
  const { modular, ...debian } = choice
  if (choice.modules !== undefined && modular === undefined) return choice
  return existsSync(DEBIAN.kernel) && existsSync(DEBIAN.modules) ? { ...debian, ...DEBIAN } : undefined
}

/** Whether a guest of this kernel can be bare: see `KernelCommand.isBare`. */
export const canBeBare = (choice: KernelChoice): boolean => choice.kind === 'uml' && choice.modular === 'firewall'

/** The same kernel with at least so much memory, where it is a guest. */
export function withMemory(choice: KernelChoice, memoryMiB: number): KernelChoice {
  return choice.kind === 'uml' ? { ...choice, memoryMiB: Math.max(choice.memoryMiB, memoryMiB) } : choice
}
