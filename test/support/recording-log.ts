/**
 * A log for tests that keeps every line in memory, with its level and component.
 * What could break: `lines` is shared by all children, in the order of the calls.
 */
import type { Log, LogFields } from '../../src/values/log.ts'

export interface RecordedLine {
  readonly level: 'info' | 'warn' | 'error'
  readonly component: string
  readonly message: string
  readonly fields: LogFields
}

export interface RecordingLog extends Log {
  readonly lines: readonly RecordedLine[]
}

/** `verbosity` is what `v(level)` compares with; the default lets every line through. */
export function recordingLog(verbosity = Number.POSITIVE_INFINITY): RecordingLog {
  const lines: RecordedLine[] = []
  const forComponent = (component: string): RecordingLog => {
    const keep =
      (level: RecordedLine['level']) =>
      (message: string, fields: LogFields = {}): void => {
        lines.push({ level, component, message, fields })
      }
    return {
      lines,
      info: keep('info'),
      warn: keep('warn'),
      error: keep('error'),
      v: (level) => level <= verbosity,
      child: forComponent,
    }
  }
  return forComponent('')
}
