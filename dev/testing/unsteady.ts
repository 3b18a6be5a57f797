/**
 * What becomes of a test file that failed and passed when it ran again. In CI it stays a failure: a
 * test that fails in 30 % of the runs would otherwise be green in 91 % of them. On a developer's
 * machine, which may be busy, the second run counts, but not twice in ten runs. `test/unsteady.txt`
 * lists files that are known to be unsteady, for at most 30 days.
 */

/** A line of the list. */
export interface KnownUnsteady {
  readonly file: string
  /** The day of the entry, in milliseconds since the epoch. */
  readonly sinceMs: number
  readonly reason: string
}

export interface KnownList {
  readonly entries: readonly KnownUnsteady[]
  /** What is wrong with the list, one sentence each. */
  readonly problems: readonly string[]
}

const DAY_MS = 86_400_000
const LONGEST_DAYS = 30

/**
 * Reads the list: `FILE YYYY-MM-DD REASON`, one a line; lines that are empty or start with # do not
 * count.
 * @param path for messages
 * @param exists whether the project has this test file
 */
export function parseKnownList(
  text: string,
  path: string,
  nowMs: number,
  exists: (file: string) => boolean,
): KnownList {
  const entries: KnownUnsteady[] = []
  const problems: string[] = []
  for (const [index, line] of text.split('\n').entries()) {
    if (/^\s*(#|$)/.test(line)) continue
    const place = `${path}:${index + 1}`
    const [, file = '', day = '', reason = ''] = /^(\S+)\s+(\d{4}-\d\d-\d\d)\s+(\S.*)$/.exec(line) ?? []
    const sinceMs = Date.parse(`${day}T00:00:00Z`)
    if (reason === '' || Number.isNaN(sinceMs)) problems.push(`${place} is not "FILE YYYY-MM-DD REASON"`)
    else if (!exists(file)) problems.push(`${place} names ${file}, which is no test file`)
    else if (nowMs - sinceMs > LONGEST_DAYS * DAY_MS)
      problems.push(`${place}: the entry of ${file} is older than ${LONGEST_DAYS} days; make the test steady`)
    else entries.push({ file, sinceMs, reason })
  }
  return { entries, problems }
}

/** The unsteady files of each of the last runs on this machine, the newest last. */
export type UnsteadyHistory = readonly (readonly string[])[]

const REMEMBERED_RUNS = 10

/** The history in a JSON text; empty when it is no such thing. */
export function parseHistory(text: string): UnsteadyHistory {
  try {
    const runs: unknown = JSON.parse(text)
    if (!Array.isArray(runs)) return []
    return runs.map((run) => (Array.isArray(run) ? run.filter((file) => typeof file === 'string') : []))
  } catch {
    return []
  }
}

export const remember = (history: UnsteadyHistory, unsteady: readonly string[]): UnsteadyHistory =>
  [...history, unsteady].slice(-REMEMBERED_RUNS)

/** `listed` and `tolerated` count by their second run; the others fail. `broken` failed in both runs. */
export type Steadiness = 'broken' | 'unsteady' | 'repeatedly-unsteady' | 'listed' | 'tolerated'

export interface SecondRun {
  readonly file: string
  readonly passed: boolean
}

export function judgeSecondRun(
  { file, passed }: SecondRun,
  known: KnownList,
  history: UnsteadyHistory,
  isCi: boolean,
): Steadiness {
  if (!passed) return 'broken'
  if (known.entries.some((entry) => entry.file === file)) return 'listed'
  if (isCi) return 'unsteady'
  const isRepeated = history.slice(1 - REMEMBERED_RUNS).some((files) => files.includes(file))
  return isRepeated ? 'repeatedly-unsteady' : 'tolerated'
}

/** Whether the second result replaces the first. */
export const isForgiven = (steadiness: Steadiness): boolean => steadiness === 'listed' || steadiness === 'tolerated'

const TEXTS: Readonly<Record<Steadiness, string>> = {
  broken: 'BROKEN, failed in both runs',
  unsteady: 'UNSTEADY, failed and then passed alone, which is a failure in CI',
  'repeatedly-unsteady': 'UNSTEADY for the second time in ten runs on this machine, which is a failure',
  listed: 'UNSTEADY as test/unsteady.txt says, passed at the second run',
  tolerated: 'UNSTEADY, passed only at the second run, alone',
}

/** One line for each kind, for the end of a run. */
export function formatSteadiness(judged: ReadonlyMap<string, Steadiness>): string[] {
  const kinds = Object.keys(TEXTS) as Steadiness[] // the keys of a record of this type
  return kinds.flatMap((kind) => {
    const files = [...judged].filter(([, one]) => one === kind).map(([file]) => file)
    return files.length === 0 ? [] : [`${TEXTS[kind]}: ${files.join(', ')}`]
  })
}
