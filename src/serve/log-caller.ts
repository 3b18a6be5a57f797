/**
 * Finds the place in our sources that logs a line, as klog prints it, and the verbosity that
 * `--vmodule` gives that file. In a bundle the file `NAME.lines`, which `dev/bundle.ts` writes next
 * to each file, maps lines back to the sources; without it the place in the bundle is printed.
 * @impure
 */
import { readFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'

/** One entry of `--vmodule`. */
export interface ModuleVerbosity {
  /** Name of a file without `.ts`, or folder and name if it has a `/`; `*` and `?` are wildcards. */
  readonly filePattern: string
  readonly verbosity: number
}

/** A stack frame: `at name (file:///src/start/run.ts:29:7)`, or only the place. */
const FRAME = /(?:file:\/\/)?([^\s()]+):(\d+):(\d+)\)?$/

/** The function whose caller is wanted; V8 omits it from the stack. */
type Called = (...values: never) => unknown

/** Folder, file and line from which `called` was called: `start/run.ts:29`; '' if V8 does not know. */
export function callerOf(called: Called): string {
  const holder: { stack?: string } = {}
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 1
  Error.captureStackTrace(holder, called)
  Error.stackTraceLimit = stackTraceLimit
  const frame = holder.stack ?? ''
  let caller = callers.get(frame)
  if (caller === undefined) {
    caller = placeOf(frame)
    callers.set(frame, caller)
  }
  return caller
}

/** Callers by stack frame: one for each place in the sources that logs. */
const callers = new Map<string, string>()

function placeOf(frame: string): string {
  const [, path = '', line = '', column = ''] = FRAME.exec(frame) ?? []
  if (path === '') return ''
  const short = `${basename(dirname(path))}/${basename(path)}:${line}`
  return path.endsWith('.ts') ? short : (linesOf(path)[`${line}:${column}`] ?? short)
}

const lines = new Map<string, Readonly<Record<string, string>>>()

function linesOf(path: string): Readonly<Record<string, string>> {
  let found = lines.get(path)
  if (found === undefined) {
    try {
      found = JSON.parse(readFileSync(`${path}.lines`, 'utf8')) as Readonly<Record<string, string>> // written by dev/bundle.ts
    } catch {
      found = {}
    }
    lines.set(path, found)
  }
  return found
}

/** Whether `--vmodule` lets the file of `caller` log at this level; the first matching pattern decides. */
export function isModuleVerbose(modules: readonly ModuleVerbosity[], caller: string, level: number): boolean {
  const path = caller.replace(/\.ts:\d+$/, '')
  const name = path.slice(path.lastIndexOf('/') + 1)
  const found = modules.find(({ filePattern }) => {
    const subject = filePattern.includes('/') ? path : name
    return patternOf(filePattern).test(subject)
  })
  return found !== undefined && level <= found.verbosity
}

const patterns = new Map<string, RegExp>()

/** Go's filepath.Match without character ranges. */
function patternOf(pattern: string): RegExp {
  let found = patterns.get(pattern)
  if (found === undefined) {
    const source = pattern.replace(/[.*+?^${}()|[\]\\/]/g, (letter) =>
      letter === '*' ? '[^/]*' : letter === '?' ? '[^/]' : `\\${letter}`,
    )
    found = new RegExp(`^${source}$`)
    patterns.set(pattern, found)
  }
  return found
}
