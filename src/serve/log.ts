/**
 * The program's log: winston in front, our own last step behind it, which writes each line before the call returns.
 * What could break: winston's own transports lose lines at process.exit; nothing asynchronous may come between call and write.
 */
import type { Logger } from 'winston'
import type { Log, LogFields } from '../values/log.ts'
import { type LogLevel, type LogLine, formatJson, formatText } from './log-line.ts'
import { type RepeatLimits, createRepeatFilter } from './log-repeats.ts'
import { type LogSink, createLogSink } from './log-sink.ts'

export interface LogOptions {
  readonly format: 'text' | 'json'
  /** klog's -v: lines of a higher level are not wanted. */
  readonly verbosity: number
  /** Where lines go; standard error when absent. */
  readonly sink?: LogSink
  /** Current time in milliseconds; for tests. */
  readonly now?: () => number
  readonly repeats?: RepeatLimits
}

export interface ProcessLog extends Log {
  /** Prints what is still to be summed up. Lines may follow, but there is no need to close before process.exit otherwise. */
  close(): void
}

/** The message and its fields travel through winston under these keys. */
interface Entry {
  readonly level: LogLevel
  readonly message: string
  readonly line: LogLine
}

type TransportClass = new (options: { log(entry: Entry, next: () => void): void }) => Logger['transports'][number]

/**
 * Makes the log. winston is loaded only now (45 ms and 12 MiB from node_modules), so that commands that do not log
 * do not pay for it.
 */
export async function openLog(options: LogOptions): Promise<ProcessLog> {
  const { default: winston } = await import('winston')
  const { format, verbosity, sink = createLogSink(2), now = Date.now } = options
  const repeats = createRepeatFilter(options.repeats)
  const render = format === 'json' ? formatJson : (line: LogLine) => formatText(line, process.pid)

  // winston's types lack the class that it exports.
  const Transport: TransportClass = Reflect.get(winston, 'Transport')
  const transport = new Transport({
    log(entry: Entry, next: () => void): void {
      sink.write(render(entry.line))
      next()
    },
  })
  const logger = winston.createLogger({
    levels: { error: 0, warn: 1, info: 2 },
    level: 'info',
    // Without a format of its own winston would also render every line as JSON.
    format: winston.format((entry) => entry)(),
    transports: [transport],
  })
  // A logger is a stream that starts to flow one turn after its transport is attached; until then it would only store.
  await new Promise((resolve) => setImmediate(resolve))

  const emit = (line: LogLine): void => {
    const entry: Entry = { level: line.level, message: line.message, line }
    logger.log(entry)
  }
  const emitOwn = (level: LogLevel, message: string, fields: LogFields, atMs: number): void =>
    emit({ level, component: 'log', message, fields, atMs })
  const settle = (atMs: number, dueMs: number): void => {
    for (const { key, heldBack, windowMs } of repeats.due(dueMs)) {
      const [component = '', message = ''] = key.split('\0')
      emitOwn(
        'warn',
        'Repeated line held back',
        { component, line: message, times: heldBack, withinMs: windowMs },
        atMs,
      )
    }
    const dropped = sink.takeDropped()
    if (dropped > 0) emitOwn('warn', 'Lines dropped, the reader of the log was too slow', { lines: dropped }, atMs)
  }
  const forComponent = (component: string): ProcessLog => {
    const at =
      (level: LogLevel) =>
      (message: string, fields: LogFields = {}): void => {
        const atMs = now()
        const passes = repeats.admit(`${component}\0${message}`, atMs)
        settle(atMs, atMs)
        if (passes) emit({ level, component, message, fields, atMs })
      }
    return {
      info: at('info'),
      warn: at('warn'),
      error: at('error'),
      v: (level) => level <= verbosity,
      child: forComponent,
      close: () => settle(now(), Number.POSITIVE_INFINITY),
    }
  }
  return forComponent('')
}
