/** Whether the kernel knows its clock to be synchronized: adjtimex(2) without a change, which needs no rights. */
import { loadLibrary } from './libc.ts'

/** struct timex of linux/timex.h on 64-bit machines, and the offset of its status. */
const TIMEX_BYTES = 208
const STATUS_AT = 40
const STA_UNSYNC = 0x40

/** Throws `native-unavailable`, or Error when the kernel refuses (seccomp). */
export function isClockSynchronized(): boolean {
  const adjtimex: (timex: Uint8Array) => number = loadLibrary().func('int adjtimex(void *)')
  const timex = new Uint8Array(TIMEX_BYTES)
  // The first field, modes, stays 0: nothing is changed.
  if (adjtimex(timex) < 0) throw new Error('the kernel refuses adjtimex')
  const view = new DataView(timex.buffer)
  return (view.getInt32(STATUS_AT, true) & STA_UNSYNC) === 0
}
