/**
 * A guest that is an ordinary process: user-mode Linux with this machine's root folder as its own (hostfs).
 * What could break: its memory is a file that is mapped executable; a small or noexec /dev/shm (containers) will not do.
 */
import { readFileSync, statfsSync } from 'node:fs'
import type { UserModeKernel } from './choice.ts'
import { type Guest, guestProcessors, type KernelCommand, onProcessor } from './guest.ts'

const memoryMiB = 2048

export function userModeGuest(
  choice: UserModeKernel,
  { kernelParameters = [], processor }: Pick<KernelCommand, 'kernelParameters' | 'processor'>,
): Guest {
  return {
    settings: {
      channels: { stdout: '/dev/ttyS0', stderr: '/dev/ttyS1', control: '/dev/ttyS2' },
      ...(choice.modules === undefined ? {} : { modules: choice.modules }),
      liveFolders: [], // hostfs reads the host's files each time they are opened
    },
    bootTimeoutMs: 60_000,
    command: (folder) => ({
      argv: [
        ...onProcessor(processor),
        choice.kernel,
        `mem=${memoryMiB}M`,
        `ncpus=${guestProcessors(processor)}`,
        'seccomp=auto',
        'root=/dev/root',
        'rootfstype=hostfs',
        'rootflags=/',
        'rw',
        'quiet',
        ...kernelParameters,
        'con=null',
        'con0=null,fd:1',
        'ssl0=null,fd:3',
        'ssl1=null,fd:4',
        'ssl2=fd:5,fd:5',
        'init=/bin/bash',
        '--',
        `${folder}/init`,
        folder,
      ],
      // HOME: it keeps a folder of its running kernels there.
      env: { PATH: process.env['PATH'], HOME: folder, TMPDIR: memoryFolder(readFileSync('/proc/mounts', 'utf8')) },
    }),
  }
}

/** Where the guest's memory file goes: the first folder on a file system that allows execution and has the room. */
export function memoryFolder(mounts: string): string {
  const options = new Map(mounts.split('\n').map((line) => [line.split(' ')[1] ?? '', line.split(' ')[3] ?? '']))
  for (const folder of ['/dev/shm', '/tmp', '/var/tmp']) {
    if (options.get(folder)?.split(',').includes('noexec')) continue
    if (folder === '/dev/shm' && !options.has(folder)) continue
    try {
      const { bavail, bsize } = statfsSync(folder)
      if (bavail * bsize >= memoryMiB * 1024 * 1024) return folder
    } catch {
      // not there: try the next
    }
  }
  return '/tmp'
}
