/** A run of the fuzzer over some targets: in turns of equal length, with an input for each find as a file. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { corpusOf, lineOf } from './corpus.ts'
import { Coverage } from './coverage.ts'
import { type Failure, Fuzzer } from './engine.ts'
import { explore, writeCorpus } from './explore.ts'
import type { Target } from './target.ts'
import { Watchdog } from './watchdog.ts'

const TURN_MS = 2000
const HOUR_MS = 3_600_000

export interface RunOptions {
  readonly targets: readonly Target[]
  readonly hours: number
  readonly seed: number
  /** Folder for the inputs of finds. */
  readonly finds: string
  /** Progress, a line each. */
  readonly say: (text: string) => void
}

/** What one target has done. */
export interface TargetResult {
  readonly name: string
  readonly what: string
  readonly corpus: number
  readonly inputs: number
  readonly bytes: number
  /** Of processor time. */
  readonly seconds: number
  readonly finds: readonly string[]
}

interface Turn {
  readonly target: Target
  readonly fuzzer: Fuzzer
  readonly corpus: number
  seconds: number
}

/** Writes the input of a find; its path. */
function writeFind(folder: string, failure: Failure, number: number): string {
  mkdirSync(folder, { recursive: true })
  const path = join(folder, `${failure.target}-${number}.txt`)
  writeFileSync(path, `# ${failure.text.replaceAll('\n', ' ')}\n${lineOf(failure.input)}\n`)
  return path
}

/** Runs until the time is over. */
export async function runFuzzer({ targets, hours, seed, finds, say }: RunOptions): Promise<readonly TargetResult[]> {
  const turns = targets.map((target): Turn => {
    const corpus = corpusOf(target)
    return { target, fuzzer: new Fuzzer(target, corpus, seed), corpus: corpus.length, seconds: 0 }
  })
  const watchdog = new Watchdog(finds)
  for (const { fuzzer } of turns) fuzzer.onBegin = (name, input) => watchdog.begins(name, input)
  const end = performance.now() + hours * HOUR_MS
  const reported = new Set<Failure>()
  const timed = async (turn: Turn, work: () => Promise<void>): Promise<void> => {
    const before = process.threadCpuUsage()
    await work()
    const { user, system } = process.threadCpuUsage(before)
    turn.seconds += (user + system) / 1e6
    for (const failure of turn.fuzzer.failures.values()) {
      if (reported.has(failure)) continue
      reported.add(failure)
      say(`${failure.target}: ${failure.text}\n  ${writeFind(finds, failure, reported.size)}`)
    }
  }
  for (const turn of turns) await timed(turn, () => turn.fuzzer.tryCorpus())
  for (let round = 1; performance.now() < end; round++) {
    for (const turn of turns) {
      const left = Math.min(TURN_MS, end - performance.now())
      if (left > 0) await timed(turn, () => turn.fuzzer.run({ milliseconds: left }))
    }
    const inputs = turns.reduce((sum, { fuzzer }) => sum + fuzzer.inputs, 0)
    const minutes = Math.max(0, (end - performance.now()) / 60_000)
    say(
      `round ${round}: ${inputs.toLocaleString('en')} inputs, ${reported.size} finds, ${minutes.toFixed(0)} minutes left`,
    )
  }
  await watchdog.close()
  return turns.map(({ target: { name, what }, fuzzer, corpus, seconds }) => ({
    name,
    what,
    corpus,
    inputs: fuzzer.inputs,
    bytes: fuzzer.bytes,
    seconds: Math.round(seconds * 10) / 10,
    finds: Array.from(fuzzer.failures.values(), ({ text }) => text),
  }))
}

/** Grows the corpus of each target for an equal time. */
export async function growCorpus({ targets, hours, seed, finds, say }: RunOptions): Promise<void> {
  const coverage = new Coverage()
  await coverage.start()
  for (const target of targets) {
    coverage.forget()
    const milliseconds = (hours * HOUR_MS) / targets.length
    const { inputs, kept, failures } = await explore(target, { seed, milliseconds, coverage })
    writeCorpus(target, kept)
    for (const [index, failure] of failures.entries()) say(`${failure.text}\n  ${writeFind(finds, failure, index)}`)
    say(`${target.name}: ${inputs.toLocaleString('en')} inputs, ${kept.length} in the corpus`)
  }
  await coverage.stop()
}
