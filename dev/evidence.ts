/**
 * `npm run evidence`: measures what a sceptic asks before 5,000 nodes, keeps it as data in
 * docs/evidence, and writes the page of all results from it.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, release } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { resultsPage } from './evidence/page.ts'
import type { Part, PartRecord } from './evidence/part.ts'
import { PARTS } from './evidence/parts.ts'
import { endWithParent } from './parent.ts'
import { finish, projectFolder, say, Unmet } from './progress.mjs'

const FOLDER = join(projectFolder, 'docs/evidence')
const fileOf = (name: string): string => join(FOLDER, `${name}.json`)

const stopped = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stopped.abort())
endWithParent(stopped)
/** A part without guests does not look at the signal. */
const GRACE_MS = 10_000
stopped.signal.addEventListener('abort', () => setTimeout(() => process.exit(1), GRACE_MS).unref())

async function evidence(parts: readonly Part[], hours: number | undefined): Promise<boolean> {
  mkdirSync(FOLDER, { recursive: true })
  let hasProblems = false
  for (const part of parts) {
    say(`${part.name}: ${part.purpose} ...`)
    const startedMs = performance.now()
    const measuredAt = new Date().toISOString()
    const commit = await commitNow()
    const result = await part.run({ hours, signal: stopped.signal })
    stopped.signal.throwIfAborted()
    const record: PartRecord = {
      part: part.name,
      purpose: part.purpose,
      command: `npm run evidence -- --only ${part.name}${hours === undefined ? '' : ` --hours ${hours}`}`,
      measuredAt,
      commit,
      machine: `${cpus().length} processors, Linux ${release()}, Node ${process.versions.node}`,
      seconds: Math.round((performance.now() - startedMs) / 1000),
      result,
    }
    writeFileSync(fileOf(part.name), `${JSON.stringify(record, undefined, 2)}\n`)
    for (const problem of result.problems) say(`${part.name}: ${problem}`)
    hasProblems ||= result.problems.length > 0
  }
  const records = PARTS.filter(({ name }) => existsSync(fileOf(name))).map(({ name }) => recordOf(name))
  writeFileSync(join(FOLDER, 'results.md'), resultsPage(records))
  // As the formatter has the other documents.
  const biome = join(projectFolder, 'node_modules/.bin/biome')
  const { code, output } = await finish(biome, ['format', '--write', FOLDER], { cwd: projectFolder })
  if (code !== 0) throw new Error(`biome refused the results: ${output}`)
  return hasProblems
}

const recordOf = (name: string): PartRecord => JSON.parse(readFileSync(fileOf(name), 'utf8')) as PartRecord // written above

/** The commit, with a sign when the checkout is another one. */
async function commitNow(): Promise<string> {
  const [head, status] = await Promise.all(
    [
      ['rev-parse', '--short=8', 'HEAD'],
      ['status', '--porcelain'],
    ].map((args) => finish('git', args, { cwd: projectFolder })),
  )
  if (head?.code !== 0) return 'unknown'
  return `${head.output.trim()}${status?.output.trim() === '' ? '' : '+'}`
}

const { values } = parseArgs({ options: { only: { type: 'string', multiple: true }, hours: { type: 'string' } } })
try {
  const names = PARTS.map(({ name }) => name)
  const unknown = values.only?.filter((name) => !names.includes(name)) ?? []
  if (unknown.length > 0) throw new Unmet(`no part is called ${unknown.join(', ')}; there are: ${names.join(', ')}`)
  const hours = values.hours === undefined ? undefined : Number(values.hours)
  if (hours !== undefined && !(hours > 0)) throw new Unmet(`--hours needs a positive number, not ${values.hours}`)
  const chosen = PARTS.filter(({ name }) => values.only?.includes(name) ?? true)
  if (await evidence(chosen, hours)) process.exitCode = 1
} catch (error) {
  if (stopped.signal.aborted) say('stopped; nothing of the part that was measured is kept')
  else if (error instanceof Unmet) say(error.message)
  else throw error
  process.exitCode = 1
}
