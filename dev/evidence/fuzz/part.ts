/**
 * The part `fuzz` of the evidence: runs all targets in turns for some hours, writes an input for each
 * find, and returns the numbers.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { EvidencePart, PartOptions, PartResult } from '../part.ts'
import { corpusOf, lineOf } from './corpus.ts'
import { Coverage } from './coverage.ts'
import { type Failure, Fuzzer } from './engine.ts'
import { explore, writeCorpus } from './explore.ts'
import { LIMITS } from './judge.ts'
import type { Target } from './target.ts'
import { TARGETS } from './targets/all.ts'
import { Watchdog } from './watchdog.ts'

const TURN_MS = 2000
const HOUR_MS = 3_600_000

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

/** The data of `docs/evidence/fuzz.json`. */
export interface FuzzResult extends PartResult {
  readonly seed: number
  readonly limits: typeof LIMITS
  readonly targets: readonly TargetResult[]
}

interface Turn {
  readonly target: Target
  readonly fuzzer: Fuzzer
  readonly corpus: number
  seconds: number
}

/** The targets whose names contain one of the words; all without words. */
function chosen(words: readonly string[]): readonly Target[] {
  return words.length === 0 ? TARGETS : TARGETS.filter(({ name }) => words.some((word) => name.includes(word)))
}

/** Writes the input of a find where the next run does not remove it; its name. */
function writeFind(folder: string, failure: Failure, number: number): string {
  mkdirSync(folder, { recursive: true })
  const path = join(folder, `${failure.target}-${number}.txt`)
  writeFileSync(path, `# ${failure.text.replaceAll('\n', ' ')}\n${lineOf(failure.input)}\n`)
  return path
}

async function run(options: PartOptions): Promise<FuzzResult> {
  const { hours, seed, say, signal, words } = options
  const turns = chosen(words).map((target): Turn => {
    const corpus = corpusOf(target)
    return { target, fuzzer: new Fuzzer(target, corpus, seed), corpus: corpus.length, seconds: 0 }
  })
  const watchdog = new Watchdog(options.finds)
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
      say(`${failure.target}: ${failure.text}\n  ${writeFind(options.finds, failure, reported.size)}`)
    }
  }
  for (const turn of turns) if (!signal.aborted) await timed(turn, () => turn.fuzzer.tryCorpus())
  for (let round = 1; performance.now() < end && !signal.aborted; round++) {
    for (const turn of turns) {
      const left = Math.min(TURN_MS, end - performance.now())
      if (left > 0 && !signal.aborted) await timed(turn, () => turn.fuzzer.run({ milliseconds: left }))
    }
    const inputs = turns.reduce((sum, { fuzzer }) => sum + fuzzer.inputs, 0)
    const minutes = Math.max(0, (end - performance.now()) / 60_000)
    say(
      `round ${round}: ${inputs.toLocaleString('en')} inputs, ${reported.size} finds, ${minutes.toFixed(0)} minutes left`,
    )
  }
  await watchdog.close()
  return {
    seed,
    limits: LIMITS,
    targets: turns.map(({ target: { name, what }, fuzzer, corpus, seconds }) => ({
      name,
      what,
      corpus,
      inputs: fuzzer.inputs,
      bytes: fuzzer.bytes,
      seconds: Math.round(seconds * 10) / 10,
      finds: Array.from(fuzzer.failures.values(), ({ text }) => text),
    })),
    isGood: reported.size === 0,
  }
}

/** Grows the corpus of each target for an equal time. */
async function grow({ hours, seed, say, signal, words, finds }: PartOptions): Promise<void> {
  const targets = chosen(words)
  const coverage = new Coverage()
  await coverage.start()
  for (const target of targets) {
    if (signal.aborted) return
    coverage.forget()
    const milliseconds = (hours * HOUR_MS) / targets.length
    const { inputs, kept, failures } = await explore(target, { seed, milliseconds, coverage })
    writeCorpus(target, kept)
    for (const [index, failure] of failures.entries()) say(`${failure.text}\n  ${writeFind(finds, failure, index)}`)
    say(`${target.name}: ${inputs.toLocaleString('en')} inputs, ${kept.length} in the corpus`)
  }
  await coverage.stop()
}

const number = (value: number): string => Math.round(value).toLocaleString('en')

/** The lines of the page. */
function lines({ targets, seed, limits }: FuzzResult): readonly string[] {
  const total = (of: (target: TargetResult) => number): number => targets.reduce((sum, target) => sum + of(target), 0)
  const finds = targets.flatMap(({ finds }) => finds)
  return [
    `${number(total(({ inputs }) => inputs))} inputs in ${number(total(({ seconds }) => seconds))} s of processor time, seed ${seed}. An input fails with`,
    'an error that the program does not throw on purpose, with a broken rule (what is read is written in the same',
    `way, a stream in chunks has the same events), with more than ${limits.milliseconds} ms and ${limits.microsecondsPerByte} µs a byte of processor`,
    `time (6 µs for YAML), with more than ${limits.heapBytes >> 20} MiB of heap, or with a member added to all objects.`,
    finds.length === 0 ? 'None failed.' : `${finds.length} failed: ${finds.join('; ')}.`,
    '',
    '| target | reads | corpus | inputs | a second |',
    '| --- | --- | --- | --- | --- |',
    ...targets.map(
      ({ name, what, corpus, inputs, seconds }) =>
        `| ${name} | ${what} | ${corpus} | ${number(inputs)} | ${number(inputs / Math.max(seconds, 0.1))} |`,
    ),
  ]
}

export const FUZZ: EvidencePart<FuzzResult> = {
  name: 'fuzz',
  question: 'What do bytes do that no well-behaved program sends?',
  hours: 0.5,
  run,
  grow,
  lines,
}
