/** A row of the tests of the checks: facts that differ from those of a healthy node, and what a check says. */
import type { NodeFacts } from '../../../src/doctor/facts.ts'

export type Changes = Partial<NodeFacts>
type Expected = 'error' | 'warning' | 'note' | 'ok' | 'unknown'
/** `text`: what the findings and their remedies say, a line each. */
export type Row = readonly [id: string, changes: Changes, expected: Expected, text?: RegExp]

export const UNSEEN = { unseen: 'Operation not permitted' }
