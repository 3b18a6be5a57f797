/**
 * `npm run test:surfaces`: every recorded command line, file and answer of a folder against the program; one line for each
 * that differs and last `N passed, M failed`.
 * What could break: a run without any case is a failure, and so is a case that did not come to its end.
 */
import { existsSync, readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { endWithParent } from './parent.ts'
import { judge, readDeviations } from './surfaces/deviations.ts'
import type { SurfaceCase } from './surfaces/surface-case.ts'

const DEFAULT_CASES = resolve(import.meta.dirname, '../../shared/oracle/surfaces')
const GROUPS = join(import.meta.dirname, 'surfaces')
const USAGE = 'npm run test:surfaces [-- [--cases DIR] [--verbose] [PATTERN...]]'
const MOST_LINES = 40

const print = (line: string): boolean => process.stdout.write(`${line}\n`)

async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args)
  if ('error' in options) return fail(`${options.error}\n${USAGE}`, 2)
  const { cases: given, verbose, patterns } = options
  const directory = resolve(given ?? DEFAULT_CASES)
  if (!existsSync(directory)) return fail(`There is no folder ${directory}. Name one with --cases DIR.`, 1)
  const stopped = new AbortController()
  endWithParent(stopped)
  stopped.signal.addEventListener('abort', () => process.exit(1))
  const wanted = (name: string): boolean => patterns.length === 0 || patterns.some((pattern) => name.includes(pattern))
  const cases = (await allCases(directory)).filter(({ name }) => wanted(name))
  const deviations = new Map(readDeviations().map((deviation) => [deviation.case, deviation]))
  print(`Recordings of ${directory}`)
  const startedMs = performance.now()
  const queue = cases.values()
  const counts = { passed: 0, failed: 0, deviating: 0 }
  const work = async (): Promise<void> => {
    for (const one of queue) {
      const deviation = deviations.get(one.name)
      const found = judge(await outcomeOf(one), deviation)
      counts[found.length === 0 ? 'passed' : 'failed']++
      if (found.length === 0 && deviation !== undefined) counts.deviating++
      if (found.length > 0) print([`FAIL ${one.name}`, ...found.flatMap(indented)].join('\n'))
      else if (verbose) print(`ok   ${one.name}${deviation === undefined ? '' : `  deviates: ${deviation.reason}`}`)
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() + 1 }, work))
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(0)
  print(
    `${cases.length} cases in ${seconds} s, ${counts.deviating} of them deviate as listed in test/surfaces/deviations.yaml`,
  )
  print(`${counts.passed} passed, ${counts.failed} failed`)
  return counts.failed === 0 && counts.passed > 0 ? 0 : 1
}

function readOptions(args: readonly string[]) {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { cases: { type: 'string' }, verbose: { type: 'boolean', default: false } },
    })
    return { cases: values.cases, verbose: values.verbose, patterns: positionals }
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

function fail(message: string, code: number): number {
  process.stderr.write(`${message}\n`)
  return code
}

/** A file of the folder that is a group: its cases of a folder of recordings, none when that has none of its kind. */
interface Group {
  readonly surfaceCases?: (directory: string) => Promise<readonly SurfaceCase[]>
}

/** Each file of the folder that exports `surfaceCases` is a group. */
async function allCases(directory: string): Promise<SurfaceCase[]> {
  const cases: SurfaceCase[] = []
  for (const file of readdirSync(GROUPS).sort()) {
    if (!file.endsWith('.ts')) continue
    const group: Group = await import(join(GROUPS, file))
    if (group.surfaceCases !== undefined) cases.push(...(await group.surfaceCases(directory)))
  }
  return cases
}

async function outcomeOf(one: SurfaceCase): Promise<readonly string[]> {
  try {
    return await one.run()
  } catch (error) {
    return [`it was not run to its end: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`]
  }
}

function indented(text: string): string[] {
  const lines = text.trimEnd().split('\n')
  const more = lines.length > MOST_LINES ? [`    and ${lines.length - MOST_LINES} more lines`] : []
  return [...lines.slice(0, MOST_LINES).map((line) => `    ${line}`), ...more]
}

process.exit(await main(process.argv.slice(2)))
