/** Starts a program in the image's root file system, as the container of a pod on the network of its host. */
import { type ChildProcess, spawn } from 'node:child_process'
import { IMAGE_VARIABLE } from '../../dev/image/contents.ts'
import { type Capability, inContainer, type Mount } from './container-runtime.ts'

export interface ContainerOptions {
  /** As `command` and `args` of a Pod: an absolute path in the image, and its arguments. */
  readonly command: readonly string[]
  /**
   * Default NET_ADMIN and NET_RAW, as the chart has it. `privileged` keeps everything, and
   * /proc/sys and /sys writable.
   */
  readonly capabilities?: readonly Capability[] | 'privileged'
  /** Read-only mounts: path in the container to a file or folder of this machine. */
  readonly mounts?: Readonly<Record<string, string>>
  /** The same, writable. */
  readonly writableMounts?: Readonly<Record<string, string>>
  /** Beside the image's own. */
  readonly env?: Readonly<Record<string, string>>
}

/** The process is the program itself, so signals reach it. Its standard output and error are pipes. */
export function startContainer(options: ContainerOptions): ChildProcess {
  const { command, capabilities = ['NET_ADMIN', 'NET_RAW'], mounts = {}, writableMounts = {}, env = {} } = options
  const root = process.env[IMAGE_VARIABLE]
  if (root === undefined) throw new Error(`${IMAGE_VARIABLE} names no image: the test needs('image')`)
  const mountsOf = (paths: Readonly<Record<string, string>>, readOnly: boolean): Mount[] =>
    Object.entries(paths).map(([target, source]) => ({ source, target, readOnly }))
  const container = {
    privileged: capabilities === 'privileged',
    capabilities: capabilities === 'privileged' ? [] : capabilities,
    hasSeccompProfile: process.arch === 'x64',
    root,
    mounts: [...mountsOf(mounts, true), ...mountsOf(writableMounts, false)],
  }
  const [program, ...args] = inContainer(container, command)
  return spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', ...env },
  })
}

/** Runs a container to its end. */
export async function runContainer(
  options: ContainerOptions,
): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = startContainer(options)
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk) => {
      output += chunk
    })
  const code = await new Promise<number | null>((resolve) => child.once('close', (exit) => resolve(exit)))
  return { code, output }
}
