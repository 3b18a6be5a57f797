/**
 * A guest that is an ordinary process: user-mode Linux with this machine's root folder as its own
 * (hostfs).
 */
import type { UserModeKernel } from './choice.ts'
import { type Guest, guestProcessors, type KernelCommand, onProcessor } from './guest.ts'

export function userModeGuest(
  choice: UserModeKernel,
  {
    kernelParameters = [],
    processor,
    isBare = false,
  }: Pick<KernelCommand, 'kernelParameters' | 'processor' | 'isBare'>,
): Guest {
  return {
    settings: {
      channels: { stdout: '/dev/ttyS0', stderr: '/dev/ttyS1', control: '/dev/ttyS2' },
      ...(choice.modules === undefined || isBare ? {} : { modules: choice.modules }),
      loadsAll: choice.modular === 'firewall',
      isBare,
      liveFolders: [], // hostfs reads the host's files each time they are opened
    },
    bootTimeoutMs: 60_000,
    command: (folder) => ({
      argv: [
        ...onProcessor(processor),
        // Of the kernel alone: the programs before it have this machine's.
        ...(choice.libraries === undefined ? [] : ['env', `LD_LIBRARY_PATH=${choice.libraries}`]),
        choice.kernel,
        `mem=${choice.memoryMiB}M`,
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
      // User-mode Linux writes a folder with its running kernels into HOME.
      env: { PATH: process.env['PATH'], HOME: folder, TMPDIR: choice.memoryFolder },
    }),
  }
}
