/**
 * The program's log. winston, the project's logging library, passes each line from the log's
 * methods to a transport of ours. What klog has and winston lacks is ours: verbosity and place of
 * the call (log-caller), format (log-line), suppression of repeated lines (log-repeats), and a
 * write that is finished before the call returns (log-sink), since winston's own transports lose
 * lines at process.exit.
 * @impure
 */
import type { Logger } from 'winston'
import type { Log, LogFields } from '../values/log.ts'
import { callerOf, isModuleVerbose, type ModuleVerbosity } from './log-caller.ts'
import { type LogLevel, type LogLine, formatJson, formatText, withoutSecrets } from './log-line.ts'
import { type RepeatLimits, createRepeatFilter } from './log-repeats.ts'
import { type LogSink, createLogSink } from './log-sink.ts'

/** The options that can be changed while the program runs. */
export interface LogVerbosity {
  /** klog's -v: lines of a higher level are not printed. */
  readonly verbosity: number
  /** klog's --vmodule: files with a higher verbosity. Default none. */
  readonly vmodule?: readonly ModuleVerbosity[]
}

export interface LogOptions extends LogVerbosity {
  readonly format: 'text' | 'json'
  /** Default: standard error. */
  readonly sink?: LogSink
  /** Wall clock in milliseconds since the epoch; for tests. */
  readonly now?: () => number
  readonly repeats?: RepeatLimits
}

/** The log of a process. */
export interface ProcessLog extends Log {
  /** Logs a plain text, like klog's Infof, if lines of this level are printed. */
  print(level: number, text: string): void
  /** Changes -v and --vmodule. */
  setVerbosity(verbosity: LogVerbosity): void
  /** Prints the summaries of suppressed lines, for the end of the process. All other lines are already written. */
  close(): void
}

/** A line on its way through winston, which needs `level` and `message`. */
interface Entry {
  readonly level: LogLevel
  readonly message: string
  readonly line: LogLine
}

type TransportClass = new (options: { log(entry: Entry, next: () => void): void }) => Logger['transports'][number]

/**
 * Opens the log. winston is loaded here (45 ms and 12 MiB from node_modules) and not before, so
 * that commands without a log do not pay for it.
 */
export async function openLog(options: LogOptions): Promise<ProcessLog> {
  const { default: winston } = await import('winston')
  const { format, sink = createLogSink(2), now = wallClock() } = options
  let { verbosity, vmodule = [] } = options
  const repeats = createRepeatFilter(options.repeats)
  const render = format === 'json' ? formatJson : (line: LogLine) => formatText(line, process.pid)

  // winston exports this class, but its types do not declare it.
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
    // A format that does nothing: winston's default format would render every line as JSON.
    format: winston.format((entry) => entry)(),
    transports: [transport],
  })
  // A winston logger is a stream that starts to flow one turn of the event loop after its transport was attached.
  await new Promise((resolve) => setImmediate(resolve))

  const emit = (line: LogLine): void => {
    const entry: Entry = { level: line.level, message: line.message, line }
    logger.log(entry)
  }
  const own = {
    write: (level: LogLevel, message: string, fields: LogFields, atMs: number): void =>
      emit({ level, verbosity: 0, caller: callerOf(own.write), message, fields, atMs }),
  }
  const report = (atMs: number, dueMs: number): void => {
    for (const { key, suppressed, windowMs } of repeats.due(dueMs)) {
      const [caller = '', line = ''] = key.split('\0')
      const fields = { from: caller, line, times: suppressed, withinMs: windowMs }
      // A node with many changes repeats lines of -v=2, and nothing is wrong with it; what passed
      // has the line's own level.
      own.write('info', 'Suppressed repeated line', fields, atMs)
    }
    const dropped = sink.takeDropped()
    if (dropped > 0)
      own.write('warn', 'Dropped lines because the reader of the log was too slow', { lines: dropped }, atMs)
  }
  const write = (line: Omit<LogLine, 'atMs'>): void => {
    const atMs = now()
    const passes = repeats.admit(`${line.caller}\0${line.message}`, atMs)
    report(atMs, atMs)
    if (passes) emit({ ...line, atMs })
  }
  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}): void =>
      write({ level, verbosity: 0, caller: callerOf(log[level]), message, fields })
  const isPrinted = (level: number, called: (...values: never) => unknown): boolean =>
    level <= verbosity || (vmodule.length > 0 && isModuleVerbose(vmodule, callerOf(called), level))
  const log: ProcessLog = {
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    verbose: (level, message, fields = {}) => {
      if (isPrinted(level, log.verbose))
        write({ level: 'info', verbosity: level, caller: callerOf(log.verbose), message, fields })
    },
    print: (level, message) => {
      if (isPrinted(level, log.print))
        write({
          level: 'info',
          verbosity: level,
          caller: callerOf(log.print),
          message,
          unstructured: true,
          fields: {},
        })
    },
    v: (level) => isPrinted(level, log.v),
    setVerbosity: (changed) => {
      verbosity = changed.verbosity
      vmodule = changed.vmodule ?? []
    },
    close: () => {
      report(now(), Number.POSITIVE_INFINITY)
      sink.flush()
    },
  }
  return log
}

/** Milliseconds since the epoch with a fraction; follows when the system's clock is set. */
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
