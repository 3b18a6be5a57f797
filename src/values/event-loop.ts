/**
 * Budgets of this process: by its monotonic clock, and with turns of its event loop.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Budget } from './budget.ts'
import type { Clock } from './clock.ts'

/** A budget whose first stretch begins now. @param now tests have a clock of their own */
export function newBudget(now: Clock = () => performance.now()): Budget {
  return new Budget({ now, nextTurn: () => nextTurn() })
}

/** A budget of an audit, whose stretches count as long as this thread had the processor. */
export function newAuditBudget(): Budget {
  return new Budget({ now: () => performance.now(), nextTurn: () => nextTurn(), processor: processorMs })
}

function processorMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
