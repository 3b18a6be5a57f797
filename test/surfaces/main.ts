/**
 * `npm run test:surfaces`: compares the program with every recorded command line, file and answer
 * of a folder; prints one line for each case that differs, one for each recording that the folder
 * does not have, and last `N passed, M failed`. A run without cases fails, and so does a case that
 * did not end.
 */
import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { endWithParent } from '../../dev/parent.ts'
import { indented, judge } from '../support/deviations.ts'
import { recordingPath } from '../support/recordings.ts'
import { readSurfaces } from './folder.ts'
import { joined, readSurfaceDeviations, type SurfaceCase } from './surface-case.ts'

const DEFAULT_CASES = recordingPath('surfaces')
const USAGE = 'npm run test:surfaces [-- [--cases DIR] [--verbose] [PATTERN...]]'
const HINT = 'Name a folder such as test/recordings/surfaces with --cases DIR.'

const print = (line: string): boolean => process.stdout.write(`${line}\n`)

async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args)
  if ('error' in options) return fail(`${options.error}\n${USAGE}`, 2)
  const { cases: given, verbose, patterns } = options
  const directory = resolve(given ?? DEFAULT_CASES)
  if (!existsSync(directory)) return fail(`There is no folder ${directory}. ${HINT}`, 1)
  const { cases: all, missing } = readSurfaces(directory)
  if (all.length === 0) return fail(`${directory} holds no recorded surfaces. ${HINT}`, 1)
  const cases = all.filter(({ name }) => patterns.length === 0 || patterns.some((pattern) => name.includes(pattern)))
  if (cases.length === 0) return fail(`None of the ${all.length} cases has a name with ${patterns.join(' or ')}.`, 1)
  const stopped = new AbortController()
  endWithParent(stopped)
  stopped.signal.addEventListener('abort', () => process.exit(1))
  const deviations = new Map(readSurfaceDeviations().map((deviation) => [deviation.case, deviation]))
  print(`Recordings of ${directory}`)
  for (const path of missing) print(`The folder holds no cases of ${path}`)
  const startedMs = performance.now()
  const queue = cases.values()
  const counts = { passed: 0, failed: 0, deviating: 0 }
  const work = async (): Promise<void> => {
    for (const one of queue) {
      const verdict = judge(joined(await outcomeOf(one)), deviations.get(one.name))
      counts[verdict.kind === 'differs' ? 'failed' : 'passed']++
      if (verdict.kind === 'deviates') counts.deviating++
      if (verdict.kind === 'differs') print([`FAIL ${one.name}`, ...indented(verdict.text)].join('\n'))
      else if (verbose)
        print(`ok   ${one.name}${verdict.kind === 'deviates' ? `  deviates: ${verdict.deviation.reason}` : ''}`)
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

async function outcomeOf(one: SurfaceCase): Promise<readonly string[]> {
  try {
    return await one.run()
  } catch (error) {
    return [`it was not run to its end: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`]
  }
}

process.exit(await main(process.argv.slice(2)).catch((error: Error) => fail(error.message, 1)))
