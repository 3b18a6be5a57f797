/**
 * Where log lines end: a file descriptor, written synchronously, so that nothing is lost when the process exits.
 * What could break: a reader that stalls must not stall the proxy for long; after a short wait lines are dropped and counted.
 */
import { writeSync } from 'node:fs'

export interface LogSink {
  /** Writes one line and its line break, or counts it as dropped. */
  write(line: string): void
  /** Lines dropped since the last call. */
  takeDropped(): number
  /** The end: waits longer than usual for a reader that is slow, so that what was begun is finished. */
  flush(): void
}

export interface SinkOptions {
  /** Longest wait for a full pipe, for all lines of one stall together. */
  readonly stallMs?: number
  /** For tests: what writes; as fs.writeSync. */
  readonly write?: (descriptor: number, bytes: Uint8Array) => number
  /** For tests: what waits. */
  readonly sleep?: (milliseconds: number) => void
}

const STALL_MS = 40
const FLUSH_MS = 200
const STEP_MS = 2

/** A sink on an open descriptor; 2 is standard error. It never throws: there is nobody to tell. */
export function createLogSink(descriptor: number, options: SinkOptions = {}): LogSink {
  const { stallMs = STALL_MS, write = writeSync, sleep = sleepSync } = options
  let dropped = 0
  let stalled = false
  // The rest of a line of which the reader already has the beginning.
  let rest: Uint8Array | undefined

  /** Writes as much as goes through within the wait; what is left comes back. */
  const push = (bytes: Uint8Array, longestMs = stallMs): Uint8Array | undefined => {
    let left = bytes
    let waitedMs = 0
    while (left.length > 0) {
      try {
        left = left.subarray(write(descriptor, left))
        stalled = false
      } catch (cause) {
        const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
        if (code === 'EINTR') continue
        // EPIPE, EIO and their like: the reader is gone, and with it anyone who would read a complaint.
        if (code !== 'EAGAIN') return undefined
        if (stalled || waitedMs >= longestMs) {
          stalled = true
          return left
        }
        sleep(STEP_MS)
        waitedMs += STEP_MS
      }
    }
    return undefined
  }
  return {
    write(line) {
      if (rest !== undefined) rest = push(rest)
      if (rest !== undefined) {
        dropped++
        return
      }
      const bytes = Buffer.from(`${line}\n`)
      const left = push(bytes)
      if (left === undefined) return
      if (left.length === bytes.length) dropped++
      else rest = left
    },
    takeDropped() {
      const count = dropped
      dropped = 0
      return count
    },
    flush() {
      stalled = false
      if (rest !== undefined) rest = push(rest, FLUSH_MS)
    },
  }
}

const never = new Int32Array(new SharedArrayBuffer(4))

function sleepSync(milliseconds: number): void {
  Atomics.wait(never, 0, 0, milliseconds)
}
