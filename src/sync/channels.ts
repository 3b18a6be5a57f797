/**
 * Channels of node:diagnostics_channel on which the program says what it does, for whoever measures
 * it from inside its process: a module that `node --require` loads before it. Without a subscriber
 * no message is made.
 * @impure
 */
import { channel } from 'node:diagnostics_channel'
import type { ObjectChange } from '../service/objects.ts'
import type { TableName } from './table.ts'

/** A source has handed over changes, and nothing has been done about them yet. */
export interface ChangesArrived {
  readonly changes: readonly ObjectChange[]
}

/** The kernel has answered a batch of operations on one table. */
export interface BatchWritten<Op = unknown> {
  readonly table: TableName
  readonly operations: readonly Op[]
  /** One for each operation; undefined is success. */
  readonly outcomes: readonly (Error | undefined)[]
  /** The operation as the command that an operator would type. */
  readonly text: (operation: Op) => string
}

/** Messages are `ChangesArrived`. */
export const changesArrived = channel('kube-ipvs:changes-arrived')
/** Messages are `BatchWritten`. */
export const batchWritten = channel('kube-ipvs:batch-written')
