/**
 * Programs that a command starts which runs in the test's own process (own-command.ts). Node starts
 * programs with fork(2), which on user-mode Linux takes 40 ms of processor time in a process of this
 * size; here posix_spawn(3) starts them, and everything waits until they have ended.
 */
import childProcess, { type ChildProcess, type SpawnOptions } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { syncBuiltinESMExports } from 'node:module'
import { Readable, Writable } from 'node:stream'
import { type Ended, finish } from './programs.ts'

/** From now on, programs are started so while `isHere` says yes; others as ever. */
export function spawnQuickly(isHere: () => boolean): void {
  const { spawn } = childProcess
  const quickly = (program: string, args: readonly string[], options: SpawnOptions): ChildProcess =>
    isHere() && options.stdio === 'pipe' && options.detached !== true
      ? started(program, args, options.env)
      : spawn(program, args, options)
  Object.assign(childProcess, { spawn: quickly })
  syncBuiltinESMExports()
}

/** It runs when all of its input is there. */
function started(program: string, args: readonly string[], env: NodeJS.ProcessEnv | undefined): ChildProcess {
  const [stdout, stderr] = [new Readable({ read: () => undefined }), new Readable({ read: () => undefined })]
  const input: Buffer[] = []
  const run = (): void => {
    let ended: Ended
    try {
      ended = finish([program, ...args], Buffer.concat(input).toString(), env)
    } catch (error) {
      child.emit('error', error)
      return
    }
    for (const [stream, text] of [
      [stdout, ended.stdout],
      [stderr, ended.stderr],
    ] as const) {
      stream.push(text)
      stream.push(null)
    }
    child.emit('exit', ended.code)
    void Promise.all([stdout, stderr].map((stream) => new Promise((resolve) => stream.once('end', resolve)))).then(() =>
      child.emit('close', ended.code),
    )
  }
  const stdin = new Writable({
    write(chunk: Buffer, _encoding, done) {
      input.push(chunk)
      done()
    },
  }).once('finish', run)
  const child = Object.assign(new EventEmitter(), { stdin, stdout, stderr, kill: () => false, unref: () => undefined })
  // What node/programs.ts uses of it.
  return child as unknown as ChildProcess
}
