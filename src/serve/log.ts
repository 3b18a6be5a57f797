/**
 * The program's log: winston in front, our own last step behind it, which writes each line before the call returns.
 * What could break: winston's own transports lose lines at process.exit; nothing asynchronous may come between call and write.
 */
import type { Logger } from 'winston'
import type { Log, LogFields } from '../values/log.ts'
import { callerOf, isModuleVerbose, type ModuleVerbosity } from './log-caller.ts'
import { type LogLevel, type LogLine, formatJson, formatText } from './log-line.ts'
import { type RepeatLimits, createRepeatFilter } from './log-repeats.ts'
import { withoutSecrets } from './log-secrets.ts'
import { type LogSink, createLogSink } from './log-sink.ts'

/** What may be changed while the program runs. */
export interface LogVerbosity {
  /** klog's -v: lines of a higher level are not wanted. */
  readonly verbosity: number
  /** klog's --vmodule: files of which more is wanted. Default none. */
  readonly vmodule?: readonly ModuleVerbosity[]
}

export interface LogOptions extends LogVerbosity {
  readonly format: 'text' | 'json'
  /** Where lines go; standard error when absent. */
  readonly sink?: LogSink
  /** Current time in milliseconds; for tests. */
  readonly now?: () => number
  readonly repeats?: RepeatLimits
}

export interface ProcessLog extends Log {
  /** A line of one text, as klog's Infof prints it, where lines of this verbosity are wanted. */
  print(level: number, text: string): void
  setVerbosity(verbosity: LogVerbosity): void
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
  const { format, sink = createLogSink(2), now = wallClock() } = options
  let { verbosity, vmodule = [] } = options
  const repeats = createRepeatFilter(options.repeats)
  const render = format === 'json' ? formatJson : (line: LogLine) => formatText(line, process.pid)

  // winston's types lack the class that it exports.
  const Transport: TransportClass = Reflect.get(winston, 'Transport')
  const transport = new Transport({
    log(entry: Entry, next: () => void): void {
      sink.write(withoutSecrets(render(entry.line)))
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
  const own = {
    warn: (message: string, fields: LogFields, atMs: number): void =>
      emit({ level: 'warn', verbosity: 0, caller: callerOf(own.warn), message, fields, atMs }),
  }
  const settle = (atMs: number, dueMs: number): void => {
    for (const { key, heldBack, windowMs } of repeats.due(dueMs)) {
      const [caller = '', line = ''] = key.split('\0')
      own.warn('Repeated line held back', { from: caller, line, times: heldBack, withinMs: windowMs }, atMs)
    }
    const dropped = sink.takeDropped()
    if (dropped > 0) own.warn('Lines dropped, the reader of the log was too slow', { lines: dropped }, atMs)
  }
  const write = (line: Omit<LogLine, 'atMs'>): void => {
    const atMs = now()
    const passes = repeats.admit(`${line.caller}\0${line.message}`, atMs)
    settle(atMs, atMs)
    if (passes) emit({ ...line, atMs })
  }
  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}): void =>
      write({ level, verbosity: 0, caller: callerOf(log[level]), message, fields })
  const isWanted = (level: number, called: (...values: never) => unknown): boolean =>
    level <= verbosity || (vmodule.length > 0 && isModuleVerbose(vmodule, callerOf(called), level))
  const log: ProcessLog = {
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    verbose: (level, message, fields = {}) => {
      if (isWanted(level, log.verbose))
        write({ level: 'info', verbosity: level, caller: callerOf(log.verbose), message, fields })
    },
    print: (level, message) => {
      if (isWanted(level, log.print))
        write({
          level: 'info',
          verbosity: level,
          caller: callerOf(log.print),
          message,
          unstructured: true,
          fields: {},
        })
    },
    v: (level) => isWanted(level, log.v),
    setVerbosity: (wanted) => {
      verbosity = wanted.verbosity
      vmodule = wanted.vmodule ?? []
    },
    close: () => {
      settle(now(), Number.POSITIVE_INFINITY)
      sink.flush()
    },
  }
  return log
}

/** Milliseconds of Unix time with a fraction; follows when the clock is set. */
function wallClock(): () => number {
  let offsetMs = Date.now() - performance.now()
  return () => {
    const atMs = performance.now() + offsetMs
    const wallMs = Date.now()
    if (Math.abs(wallMs - atMs) < 2) return atMs
    offsetMs = wallMs - performance.now()
    return wallMs
  }
}
