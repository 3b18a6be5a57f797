/**
 * Keeps a line that comes again and again from filling the disk: some a minute pass, the rest are counted and summed up.
 * What could break: memory is bounded by `capacity`; a line that is forgotten to make room passes again, it is never lost.
 */

export interface RepeatLimits {
  /** Lines of one kind that pass in one window. */
  readonly perWindow: number
  readonly windowMs: number
  /** Kinds of lines remembered at a time. */
  readonly capacity: number
}

const REPEAT_LIMITS: RepeatLimits = { perWindow: 20, windowMs: 60_000, capacity: 256 }

/** How many lines of one kind were held back in a window that is over. */
export interface RepeatSummary {
  readonly key: string
  readonly heldBack: number
  readonly windowMs: number
}

export interface RepeatFilter {
  /** Whether this line may pass. `nowMs` never goes back. */
  admit(key: string, nowMs: number): boolean
  /** Summaries that are due: of windows that are over, or of all when `nowMs` is infinite. */
  due(nowMs: number): readonly RepeatSummary[]
}

interface Window {
  readonly startMs: number
  count: number
}

/** Counts lines by key. A Map keeps the order of insertion, so the oldest windows are in front. */
export function createRepeatFilter(limits: RepeatLimits = REPEAT_LIMITS): RepeatFilter {
  const windows = new Map<string, Window>()
  const summaries: RepeatSummary[] = []

  const close = (key: string, window: Window): void => {
    windows.delete(key)
    const heldBack = window.count - limits.perWindow
    if (heldBack > 0) summaries.push({ key, heldBack, windowMs: limits.windowMs })
  }
  const closeOver = (nowMs: number): void => {
    for (const [key, window] of windows) {
      if (nowMs - window.startMs < limits.windowMs) return
      close(key, window)
    }
  }
  return {
    admit(key, nowMs) {
      closeOver(nowMs)
      const window = windows.get(key)
      if (window !== undefined) return ++window.count <= limits.perWindow
      const [oldest] = windows
      if (oldest !== undefined && windows.size >= limits.capacity) close(...oldest)
      windows.set(key, { startMs: nowMs, count: 1 })
      return limits.perWindow > 0
    },
    due(nowMs) {
      closeOver(nowMs)
      return summaries.splice(0)
    },
  }
}
