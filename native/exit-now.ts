/**
 * The end of the daemon's process, by _exit(2). `process.exit` waits until Node's threads have ended,
 * and two of them may never end: one whose file operation hangs, and, rarely, one that compiles and
 * waits for a collection of garbage (nodejs/node#54918, open in 2026-11).
 */
import { loadLibrary } from './libc.ts'

/** Ends the process at once, after its listeners for `exit`. What was printed must have left. */
export function exitNow(code: number): never {
  process.emit('exit', code)
  try {
    loadLibrary().func('void _exit(int)')(code)
  } catch {
    // `native-unavailable`: the daemon has said so.
  }
  process.exit(code)
}
