/** A log for tests that stores every line in memory, with its level, in the order of the calls. */
import type { Log, LogFields } from '../../src/values/log.ts'

export interface RecordedLine {
  readonly level: 'info' | 'warn' | 'error'
  readonly message: string
  readonly fields: LogFields
}

export interface RecordingLog extends Log {
  readonly lines: readonly RecordedLine[]
}

/** `verbosity` is what `v(level)` compares with; the default lets every line through. */
export function recordingLog(verbosity = Number.POSITIVE_INFINITY): RecordingLog {
  const lines: RecordedLine[] = []
  const keep =
    (level: RecordedLine['level']) =>
    (message: string, fields: LogFields = {}): void => {
      lines.push({ level, message, fields })
    }
  const info = keep('info')
  return {
    lines,
    info,
    verbose: (level, message, fields) => (level <= verbosity ? info(message, fields) : undefined),
    warn: keep('warn'),
    error: keep('error'),
    v: (level) => level <= verbosity,
  }
}
