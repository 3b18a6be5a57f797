/** Budgets for tests that count what a stretch does. */
import { Budget, type Work } from '../../src/values/budget.ts'

/** As src/values/budget.ts has it. */
const ITEMS_A_MS = 100

/** A budget whose stretches end after so many items. */
export function countedBudget(items: number): Budget {
  return new Budget({ now: () => 0, stretchMs: items / ITEMS_A_MS })
}

/** A budget whose stretches are over at once. */
export function oneByOne(): Budget {
  const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
  return new Budget({ now: () => 0, nextTurn, stretchMs: 0 })
}

/** Does all of the work at once. */
export function allOf<Result>(work: Work<Result>): Result {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
  }
}

/** So many whole stretches of processor time. */
export async function stretchesOf(budget: Budget, count: number): Promise<void> {
  for (let stretch = 0; stretch < count; stretch++) {
    const used = process.threadCpuUsage()
    for (let doneMs = 0; doneMs < budget.stretchMs; ) {
      const { user, system } = process.threadCpuUsage(used)
      doneMs = (user + system) / 1000
    }
    await budget.turn()
  }
}
