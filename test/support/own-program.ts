/** The program under test: the bundle if the test runner has made one, because it starts in a fraction of the time. */
import { PROGRAM_VARIABLE } from '../../dev/testing/variables.ts'

export const MAIN = process.env[PROGRAM_VARIABLE] ?? new URL('../../src/main.ts', import.meta.url).pathname
