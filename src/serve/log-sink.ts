/**
 * Writes log lines to a file descriptor, synchronously, so that no line is lost when the process
 * exits. A reader that stalls must not stall the proxy: after a short wait lines are dropped and
 * counted.
 * @impure
 */
import { writeSync } from 'node:fs'

/** The end of the log. */
export interface LogSink {
  /** Writes one line with its line break, or counts it as dropped. */
  write(line: string): void
  /** Returns the number of lines dropped since the previous call. */
  takeDropped(): number
  /** Finishes a partly written line before the process exits; waits longer for a slow reader than `write` does. */
  flush(): void
}

export interface SinkOptions {
  /** Longest wait for a full pipe, in total for all lines of one stall. */
  readonly stallMs?: number
  /** Replaces fs.writeSync in tests. */
  readonly write?: (descriptor: number, bytes: Uint8Array) => number
  /** Replaces the wait in tests. */
  readonly sleep?: (milliseconds: number) => void
}

const STALL_MS = 40
const FLUSH_MS = 200
const STEP_MS = 2

/**
 * Creates a sink on an open descriptor; 2 is standard error. It never throws, because the error
 * could not be logged.
 */
export function createLogSink(descriptor: number, options: SinkOptions = {}): LogSink {
  const { stallMs = STALL_MS, write = writeSync, sleep = sleepSync } = options
  let dropped = 0
  let stalled = false
  // The rest of a line whose beginning is already written.
  let rest: Uint8Array | undefined

  /** Writes as many bytes as possible within the wait and returns the rest. */
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
        // EPIPE, EIO and similar: the reader has closed the pipe.
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
