/**
 * The schedulers that Services choose. The kernel is asked for each before the first virtual server
 * has it; where it is missing, the scheduler of the configuration stays in force, the Service gets
 * a problem, and the kernel is asked again some minutes later.
 */
import type { ProblemLog } from '../../serve/problem-log.ts'
import { annotationField } from '../../service/annotations.ts'
import type { SchedulerName } from '../../values/schedulers.ts'
import type { AddressFrontend, FrontendKey } from '../../service/frontends.ts'
import type { Clock } from '../../values/clock.ts'
import type { Log } from '../../values/log.ts'

export interface ChosenSchedulersOptions {
  /** The scheduler of Services that choose none. */
  readonly configured: string
  /** Whether the kernel has it or loads it. Rejects when the kernel cannot be asked. */
  readonly hasScheduler: (scheduler: SchedulerName, signal: AbortSignal) => Promise<boolean>
  readonly problems: Pick<ProblemLog, 'report'>
  readonly now: Clock
  readonly log: Log
}

/** How long the answer that a scheduler is missing counts. */
export const ASK_AGAIN_MS = 5 * 60_000

export class ChosenSchedulers {
  readonly #options: ChosenSchedulersOptions
  readonly #present = new Set<string>()
  /** Missing schedulers, and when to ask again; also those that the kernel could not be asked for. */
  readonly #missing = new Map<string, number>()
  /** Frontends that have the scheduler of the configuration until theirs is known to be present. */
  readonly #waiting = new Map<FrontendKey, AddressFrontend>()
  /** Services with a problem. */
  readonly #reported = new Set<string>()
  #isChanged = false

  constructor(options: ChosenSchedulersOptions) {
    this.#options = options
    this.#present.add(options.configured)
  }

  /** Whether `ask` finds out the scheduler of this frontend for the first time: it need not be rendered before. */
  isUnknown({ servicePort }: AddressFrontend): boolean {
    const { scheduler } = servicePort.choices
    return scheduler !== undefined && !this.#present.has(scheduler.name) && !this.#missing.has(scheduler.name)
  }

  /**
   * The scheduler that a virtual server may have now. `ask` finds out the others. Call it for each
   * change of a frontend.
   */
  inForce(key: FrontendKey, frontend: AddressFrontend | undefined): string {
    const { configured } = this.#options
    const chosen = frontend?.servicePort.choices.scheduler?.name ?? configured
    if (frontend !== undefined && !this.#present.has(chosen)) {
      this.#waiting.set(key, frontend)
      this.#isChanged = true
      return configured
    }
    if (this.#waiting.delete(key)) this.#isChanged = true
    return chosen
  }

  /**
   * Asks the kernel for the schedulers that frontends wait for. Resolves to the frontends whose
   * scheduler has turned out to be present, which are to be rendered again. Rejects only when
   * aborted.
   */
  async ask(signal: AbortSignal): Promise<readonly AddressFrontend[]> {
    const dueMs = this.nextDueMs()
    if (!this.#isChanged && dueMs === undefined) return []
    const nowMs = this.#options.now()
    if (!this.#isChanged && dueMs !== undefined && nowMs < dueMs) return []
    this.#isChanged = false
    const found: AddressFrontend[] = []
    for (const [key, frontend] of this.#waiting) {
      const { scheduler } = frontend.servicePort.choices
      // A wait for each of thousands of frontends would take longer than the question.
      const isPresent = scheduler === undefined || this.#present.has(scheduler.name)
      if (!isPresent && !(await this.#isPresent(scheduler.name, nowMs, signal))) continue
      this.#waiting.delete(key)
      found.push(frontend)
    }
    // No frontend waits for these any more.
    for (const [name, againMs] of this.#missing) if (againMs <= nowMs) this.#missing.delete(name)
    this.#report()
    return found
  }

  /** When to ask again for a missing scheduler that a frontend waits for. */
  nextDueMs(): number | undefined {
    if (this.#waiting.size === 0 || this.#missing.size === 0) return undefined
    return Math.min(...this.#missing.values())
  }

  async #isPresent(name: SchedulerName, nowMs: number, signal: AbortSignal): Promise<boolean> {
    if (this.#present.has(name)) return true
    if (nowMs < (this.#missing.get(name) ?? 0)) return false
    try {
      if (await this.#options.hasScheduler(name, signal)) {
        this.#missing.delete(name)
        this.#present.add(name)
        return true
      }
    } catch (error) {
      signal.throwIfAborted()
      this.#options.log.warn('Cannot ask the kernel for a scheduler', { scheduler: name, error })
    }
    this.#missing.set(name, nowMs + ASK_AGAIN_MS)
    return false
  }

  /** Reports each Service once, whichever of its frontends wait. */
  #report(): void {
    const { configured, problems } = this.#options
    const left = new Set(this.#reported)
    for (const { servicePort } of this.#waiting.values()) {
      const { service, choices } = servicePort
      if (choices.scheduler === undefined) continue
      const { name, annotation } = choices.scheduler
      const subject = `service ${service.namespace}/${service.name}`
      if (!left.delete(subject) && this.#reported.has(subject)) continue
      this.#reported.add(subject)
      const message =
        `the kernel of this node has no scheduler "${name}", and "${configured}" stays in force: load the module ` +
        `"ip_vs_${name}" (modprobe ip_vs_${name}) or choose one that it has`
      problems.report('scheduler', subject, [
        { code: 'scheduler-missing', about: 'object', subject, field: annotationField(annotation), message },
      ])
    }
    for (const subject of left) {
      this.#reported.delete(subject)
      problems.report('scheduler', subject, [])
    }
  }
}
