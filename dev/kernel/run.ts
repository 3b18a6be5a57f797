/**
 * Runs one command on the chosen kernel: passes on stdout and stderr separately, as they are
 * written, then the exit code. The guest runs in its own session, so that Ctrl-C in the terminal
 * reaches only this program, which then ends the guest's command.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { CodedError } from '../../src/values/errors.ts'
import { canBeBare, describeKernel, type KernelChoice } from './choice.ts'
import type { Guest, KernelCommand } from './guest.ts'
import { commandScript, makeGuestFolder } from './guest-folder.ts'
import { runOnHost } from './host.ts'
import { qemuGuest } from './qemu.ts'
import { userModeGuest } from './user-mode.ts'

/** Exit code of the command; 124 after the time limit, like timeout(1). Rejects when the kernel does not start. */
export async function runInKernel(choice: KernelChoice, run: KernelCommand): Promise<number> {
  if (run.isBare === true && !canBeBare(choice))
    throw new CodedError('KERNEL_START', `no guest of ${describeKernel(choice)} is bare`)
  switch (choice.kind) {
    case 'host':
      return runOnHost(run)
    case 'uml':
      return runGuest(userModeGuest(choice, run), run)
    case 'qemu':
      return runGuest(qemuGuest(choice, run), run)
  }
}

async function runGuest(guest: Guest, run: KernelCommand): Promise<number> {
  const folder = makeGuestFolder(guest.settings, commandScript(run.command, run.cwd, run.env))
  try {
    return await superviseGuest(guest, folder.path, run)
  } finally {
    folder.remove()
  }
}

/**
 * Supervises the guest for this program. When this program dies (setpriv sends TERM) or gives the
 * guest up, the guest's control channel has ended and the guest has 3 s to power off; then its
 * whole process group is killed (user-mode Linux makes a new one), including the helper processes
 * that it would leave behind.
 */
const keeper = `
trap 'n=0; while kill -0 $guest 2>/dev/null && [ $n -lt 15 ]; do sleep 0.2; n=$((n+1)); done; rm -rf "$0"; kill -KILL -$guest 0' TERM
"$@" & guest=$!
wait $guest`

async function superviseGuest(guest: Guest, folder: string, run: KernelCommand): Promise<number> {
  const { argv, env } = guest.command(folder)
  const child = spawn('setpriv', ['--pdeathsig', 'TERM', '--', '/bin/sh', '-c', keeper, folder, ...argv], {
    detached: true,
    env,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
  })
  const ended = new Promise<void>((resolve, reject) => {
    child.once('error', (cause) => reject(new CodedError('KERNEL_START', `cannot start ${argv[0]}`, { cause })))
    child.once('close', () => resolve())
  })
  let console = ''
  const keepTail = (chunk: Buffer): void => {
    console = (console + chunk.toString('latin1')).slice(-4000)
  }
  const { out, err, stdout, stderr, control } = guestStreams(child)
  out.on('data', keepTail)
  err.on('data', keepTail)
  stdout.on('data', (chunk: Buffer) => run.stdout(chunk))
  stderr.on('data', (chunk: Buffer) => run.stderr(chunk))
  control.on('error', () => undefined) // the guest powers off, which `ended` reports

  const state: { ready: boolean; exitCode: number | undefined; expired: boolean } = {
    ready: false,
    exitCode: undefined,
    expired: false,
  }
  let received = ''
  control.on('data', (chunk: Buffer) => {
    received += chunk.toString('latin1')
    if (/^ready\r?$/m.test(received)) state.ready = true
    const exit = /^exit (\d+)\r?$/m.exec(received)
    if (exit?.[1] !== undefined) state.exitCode = Number(exit[1])
  })

  const finished = new AbortController()
  const stop = async (): Promise<void> => {
    control.write('signal TERM\n')
    await sleep(run.graceMs ?? 10_000, undefined, { signal: finished.signal }).catch(() => undefined)
    if (finished.signal.aborted) return
    control.write('signal KILL\n')
    await sleep(3_000, undefined, { signal: finished.signal }).catch(() => undefined)
    if (!finished.signal.aborted) await killGroup(child, finished.signal)
  }
  const onAbort = (): void => void stop()
  if (run.signal.aborted) onAbort()
  run.signal.addEventListener('abort', onAbort, { once: true })
  const boot = setTimeout(() => {
    if (!state.ready) void killGroup(child, finished.signal)
  }, guest.bootTimeoutMs)
  const limit =
    run.timeoutMs > 0
      ? setTimeout(() => {
          state.expired = true
          void stop()
        }, run.timeoutMs)
      : undefined
  try {
    await ended
  } finally {
    finished.abort()
    clearTimeout(boot)
    clearTimeout(limit)
    run.signal.removeEventListener('abort', onAbort)
  }
  if (state.expired) return 124
  if (state.exitCode !== undefined) return state.exitCode
  if (run.signal.aborted) return 143
  throw new CodedError(
    state.ready ? 'KERNEL_DIED' : 'KERNEL_START',
    `the guest kernel ${state.ready ? 'ended before its command did' : 'did not start'}; the end of its console:\n${console.trimEnd()}`,
  )
}

function guestStreams(
  child: ChildProcess,
): Record<'out' | 'err' | 'stdout' | 'stderr', Readable> & { control: Duplex } {
  // Descriptors 1-5 are pipes because spawn was asked for them; node's type knows only five of any kind.
  const [, out, err, stdout, stderr, control] = child.stdio as unknown as [
    null,
    Readable,
    Readable,
    Readable,
    Readable,
    Duplex,
  ]
  return { out, err, stdout, stderr, control }
}

/**
 * The keeper needs 3 s and a few processes, which take long on a starved machine. A keeper that was
 * killed sooner would leave its guest behind: it is in a process group of its own.
 */
const KEEPER_MS = 120_000

/** Ends the guest through its keeper, and kills the process group if that does not help. */
async function killGroup(child: ChildProcess, finished: AbortSignal): Promise<void> {
  if (child.pid === undefined) return
  guestStreams(child).control.destroy()
  child.kill('SIGTERM')
  await sleep(KEEPER_MS, undefined, { signal: finished }).catch(() => undefined)
  if (finished.aborted) return
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // it has ended meanwhile
  }
}
