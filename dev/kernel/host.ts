/**
 * This machine's own kernel: the command runs in new network, mount and process namespaces, which
 * end with it. /run/netns is private to them, or `ip netns add` would change the machine.
 */
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { CodedError } from '../../src/values/errors.ts'
import { type KernelCommand, onProcessor } from './guest.ts'

/**
 * Runs inside the namespaces before the command: private /run and /sys, loopback up. The shell
 * stays as the namespace's first process: it reaps orphans, and a program that is process 1 itself
 * would ignore signals it does not handle.
 */
const prelude = `mount -t tmpfs tmpfs /run && mkdir -p /run/lock /run/netns && mount -t sysfs sys /sys 2>/dev/null
ip link set lo up && "$@"
exit $?`

/** The same command in new namespaces; every process that it starts ends with it. */
export function inNamespaces(command: readonly string[]): string[] {
  const unshare = ['unshare', '--net', '--mount', '--pid', '--fork', '--kill-child=SIGKILL', '--mount-proc', '--']
  return [...unshare, '/bin/sh', '-c', prelude, 'sh', ...command]
}

export async function runOnHost(run: KernelCommand): Promise<number> {
  const child = spawn(
    'setpriv',
    [
      '--pdeathsig',
      'KILL',
      '--',
      ...onProcessor(run.processor && { ...run.processor, hasPriority: false }),
      ...inNamespaces(run.command),
    ],
    {
      detached: true,
      cwd: run.cwd,
      env: run.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  child.stdout.on('data', (chunk: Buffer) => run.stdout(chunk))
  child.stderr.on('data', (chunk: Buffer) => run.stderr(chunk))
  const ended = new Promise<number>((resolve, reject) => {
    child.once('error', (cause) => reject(new CodedError('KERNEL_START', 'cannot make namespaces', { cause })))
    child.once('close', (code) => resolve(code ?? 143))
  })
  const finished = new AbortController()
  const signalGroup = (name: NodeJS.Signals): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name)
    } catch {
      // it has ended
    }
  }
  const stop = async (): Promise<void> => {
    signalGroup('SIGTERM')
    await sleep(run.graceMs ?? 10_000, undefined, { signal: finished.signal }).catch(() => undefined)
    if (!finished.signal.aborted) signalGroup('SIGKILL')
  }
  const onAbort = (): void => void stop()
  if (run.signal.aborted) onAbort()
  run.signal.addEventListener('abort', onAbort, { once: true })
  let expired = false
  const expire = (): void => {
    expired = true
    void stop()
  }
  const limit = run.timeoutMs > 0 ? setTimeout(expire, run.timeoutMs) : undefined
  try {
    const code = await ended
    return expired ? 124 : code
  } finally {
    finished.abort()
    clearTimeout(limit)
    run.signal.removeEventListener('abort', onAbort)
  }
}
