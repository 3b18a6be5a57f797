/**
 * Gives memory of this process back to the kernel: the code of Node that only a start runs, which
 * the kernel can read again from its files and which is half of the resident memory, and what the C
 * library keeps after it was freed. madvise(2) and malloc_trim(3) through koffi, because Node has
 * no such calls.
 */
import { readFileSync } from 'node:fs'
import { loadLibrary } from './libc.ts'

/**
 * MADV_DONTNEED of linux/mman.h: the pages of a private mapping of a file are read from the file at
 * the next access.
 */
const MADV_DONTNEED = 4
/** Smaller mappings are not worth a call, in KiB. */
const SMALLEST_KIB = 512

/** A mapping of /proc/PID/smaps. */
export interface Mapping {
  readonly from: bigint
  readonly to: bigint
  /** Resident memory in KiB. */
  readonly residentKib: number
}

/**
 * Mappings whose resident pages are exactly those of a file: nothing may write to them, and no page
 * was ever changed (relocations are changed pages). Pure.
 * @param smaps the text of /proc/PID/smaps
 */
export function unchangedMappings(smaps: string): readonly Mapping[] {
  const found: Mapping[] = []
  for (const part of smaps.split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m)) {
    const [, from, to, inode] = /^([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ (\d+) /.exec(part) ?? []
    const residentKib = Number(/^Rss: +(\d+) kB$/m.exec(part)?.[1] ?? 0)
    if (from === undefined || to === undefined || inode === '0' || residentKib < SMALLEST_KIB) continue
    if (/^Anonymous: +0 kB$/m.test(part)) found.push({ from: BigInt(`0x${from}`), to: BigInt(`0x${to}`), residentKib })
  }
  return found
}

/**
 * Returns how much was given back, in KiB. The pages stay in the page cache, where the kernel may
 * drop them when memory is short; what is used again comes back page by page. Throws
 * `native-unavailable`, or when /proc cannot be read.
 */
export function releaseFilePages(): number {
  const madvise: (address: bigint, length: bigint, advice: number) => number = loadLibrary().func(
    'int madvise(uintptr_t, size_t, int)',
  )
  let released = 0
  for (const { from, to, residentKib } of unchangedMappings(readFileSync('/proc/self/smaps', 'latin1')))
    if (madvise(from, to - from, MADV_DONTNEED) === 0) released += residentKib
  return released
}

/**
 * Returns to the kernel what the C library keeps for later allocations: 4 MiB after most starts, 25
 * to 35 MiB after about one in five. Does nothing where the C library has no malloc_trim, as musl.
 * Throws `native-unavailable`.
 */
export function releaseFreedMemory(): void {
  const library = loadLibrary()
  let trim: (kept: number) => number
  try {
    trim = library.func('int malloc_trim(size_t)')
  } catch {
    return
  }
  trim(0)
}
