/**
 * A guest that is an ordinary process: user-mode Linux with this machine's root folder as its own (hostfs).
 */
import type { UserModeKernel } from './choice.ts'
import type { Guest } from './guest.ts'

const cpus = 2

export function userModeGuest(choice: UserModeKernel, parameters: readonly string[]): Guest {
  return {
    settings: {
      channels: { stdout: '/dev/ttyS0', stderr: '/dev/ttyS1', control: '/dev/ttyS2' },
      ...(choice.modules === undefined ? {} : { modules: choice.modules }),
      liveFolders: [], // hostfs reads the host's files each time they are opened
    },
    bootTimeoutMs: 60_000,
    command: (folder) => ({
      argv: [
        choice.kernel,
        `mem=${choice.memoryMiB}M`,
        `ncpus=${cpus}`,
        'seccomp=auto',
        'root=/dev/root',
        'rootfstype=hostfs',
        'rootflags=/',
        'rw',
        'quiet',
        ...parameters,
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
      env: { PATH: process.env['PATH'], HOME: folder, TMPDIR: choice.memoryFolder },
    }),
  }
}
