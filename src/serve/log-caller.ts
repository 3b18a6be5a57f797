/**
 * Where in our sources a line is logged, as klog says it, and which verbosity `--vmodule` gives that file.
 * What could break: a bundle has lines of its own; the file `NAME.lines` that `dev/bundle.ts` writes beside each of its
 * files leads back to the sources. Without it the place in the bundle is printed.
 */
import { readFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'

/** One entry of `--vmodule`. */
export interface ModuleVerbosity {
  /** Name of a file without `.ts`, or with its folder when it has a `/`; `*` and `?` stand for letters. */
  readonly filePattern: string
  readonly verbosity: number
}

/** `at name (file:///src/cli/run.ts:29:7)`, with and without what is around the place. */
const FRAME = /(?:file:\/\/)?([^\s()]+):(\d+):(\d+)\)?$/

/** A function between the caller and us, left out of the stack. */
type Called = (...values: never) => unknown

/** Folder, file and line from which `called` was called: `cli/run.ts:29`; '' when the engine does not say. */
export function callerOf(called: Called): string {
  const holder: { stack?: string } = {}
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 1
  Error.captureStackTrace(holder, called)
  Error.stackTraceLimit = stackTraceLimit
  const frame = holder.stack ?? ''
  let caller = known.get(frame)
  if (caller === undefined) {
    caller = placeOf(frame)
    known.set(frame, caller)
  }
  return caller
}

/** As many as there are places that log. */
const known = new Map<string, string>()

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
      found = JSON.parse(readFileSync(`${path}.lines`, 'utf8')) as Readonly<Record<string, string>> // Ours, by the bundler.
    } catch {
      found = {}
    }
    lines.set(path, found)
  }
  return found
}

/** Whether the file of `caller` may log at this level by what `--vmodule` says: the first pattern that fits counts. */
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

/** Go's filepath.Match, but for its ranges of letters. */
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
