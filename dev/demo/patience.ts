/** How long the demo waits on this kernel. */
import { DEADLINE_FACTOR_VARIABLE } from '../kernel/calibrate.ts'

const factor = Math.max(1, Number(process.env[DEADLINE_FACTOR_VARIABLE] ?? 1) || 1)

/** A time limit on this kernel for one on a fast kernel, in milliseconds. */
export const patience = (milliseconds: number): number => Math.ceil(milliseconds * factor)
