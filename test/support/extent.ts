/** What a quick run of the tests leaves out; `npm test -- --all`, and so CI, covers everything. */
import { FULL_RUN_VARIABLE } from '../../dev/testing/extent.ts'

/** A number of repetitions, which a quick run has fewer of; what is asserted of each of them is the same. */
export const amountOfRun = (full: number, quick: number): number =>
  process.env[FULL_RUN_VARIABLE] === '1' ? full : quick

/** Every row in a full run, else those that `isEssential` chooses. */
export function rowsOfRun<Row>(rows: readonly Row[], isEssential: (row: Row) => boolean): readonly Row[] {
  return process.env[FULL_RUN_VARIABLE] === '1' ? rows : rows.filter(isEssential)
}
