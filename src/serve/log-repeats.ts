/**
 * Limits a line that repeats, so that it does not fill the disk: some lines a minute pass, the
 * others are counted and reported as one summary. Memory is bounded by `capacity`; a kind of line
 * that was dropped to make room passes again.
 */

export interface RepeatLimits {
  /** Lines of one kind (place and message) that pass in one window. */
  readonly perWindow: number
  readonly windowMs: number
  /** Maximum number of kinds in memory. */
  readonly capacity: number
}

const REPEAT_LIMITS: RepeatLimits = { perWindow: 20, windowMs: 60_000, capacity: 256 }

/** How many lines of one kind were suppressed in a window that has ended. */
export interface RepeatSummary {
  readonly key: string
  readonly suppressed: number
  readonly windowMs: number
}

/** Decides which lines pass. */
export interface RepeatFilter {
  /** Counts a line and returns whether it may pass. `nowMs` must not decrease. */
  admit(key: string, nowMs: number): boolean
  /** Removes and returns the summaries of windows that have ended; of all windows if `nowMs` is infinite. */
  due(nowMs: number): readonly RepeatSummary[]
}

interface Window {
  readonly startMs: number
  count: number
}

/** Creates a filter. Its Map keeps the order of insertion, so the oldest windows come first. */
export function createRepeatFilter(limits: RepeatLimits = REPEAT_LIMITS): RepeatFilter {
  const windows = new Map<string, Window>()
  const summaries: RepeatSummary[] = []

  const close = (key: string, window: Window): void => {
    windows.delete(key)
    const suppressed = window.count - limits.perWindow
    if (suppressed > 0) summaries.push({ key, suppressed, windowMs: limits.windowMs })
  }
  const closeEnded = (nowMs: number): void => {
    for (const [key, window] of windows) {
      if (nowMs - window.startMs < limits.windowMs) return
      close(key, window)
    }
  }
  return {
    admit(key, nowMs) {
      closeEnded(nowMs)
      const window = windows.get(key)
      if (window !== undefined) return ++window.count <= limits.perWindow
      const [oldest] = windows
      if (oldest !== undefined && windows.size >= limits.capacity) close(...oldest)
      windows.set(key, { startMs: nowMs, count: 1 })
      return limits.perWindow > 0
    },
    due(nowMs) {
      closeEnded(nowMs)
      return summaries.splice(0)
    },
  }
}
