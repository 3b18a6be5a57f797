/**
 * What `npm test -- --all` runs beside the test files: the recordings of kube-proxy, in parts that
 * the runner treats like files.
 */

const CASES = 'test/oracle/recorded-cases.ts'
/** Each part of a mode lasts about as long as a file of test/kernel. */
const PARTS = 12

/** The recorded cases, for the kernel stage. Those with `ground=kernel` need a kernel's first network namespace. */
export function recordedCases(): readonly string[] {
  const part = (mode: string, number: number, of: number, ground: string): string =>
    `${CASES}?mode=${mode}&part=${number}&of=${of}&ground=${ground}`
  return ['ipvs', 'iptables'].flatMap((mode) => [
    part(mode, 1, 1, 'kernel'),
    ...Array.from({ length: PARTS }, (_, index) => part(mode, index + 1, PARTS, 'fresh')),
  ])
}

/** These run in a kernel's first network namespace, one at a time. */
export const isKernelWide = (file: string): boolean => file.startsWith(CASES) && file.endsWith('&ground=kernel')

/** The recorded command lines, files and answers, for the stage on this machine. */
export const RECORDED_SURFACES = 'test/surfaces/recorded-surfaces.ts'
