/**
 * Grows the corpus: changes inputs as the fuzzer does, keeps those that reach a part of the program
 * that none before did, made shorter. With counters V8 runs the program slower, so a long run has
 * none and begins with what was found here.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { corpusFile, corpusOf, lineOf } from './corpus.ts'
import type { Coverage } from './coverage.ts'
import { type Failure, Fuzzer } from './engine.ts'
import type { Target } from './target.ts'

/** Inputs between two looks. */
const BATCH = 200
/** Longer inputs are not kept, so that the files of the corpus stay small. */
const MAX_KEPT_BYTES = 4096

export interface Explored {
  readonly inputs: number
  /** Inputs that reached something new. */
  readonly kept: readonly Uint8Array[]
  readonly failures: readonly Failure[]
}

/** Explores a target for some milliseconds. @param corpus inputs to begin with, kept only if they reach something */
export async function explore(
  target: Target,
  options: {
    readonly seed: number
    readonly milliseconds: number
    readonly isGuided?: boolean
    readonly coverage: Coverage
  },
): Promise<Explored> {
  const { seed, milliseconds, isGuided = true, coverage } = options
  const fuzzer = new Fuzzer(target, corpusOf(target), seed)
  const run = (input: Uint8Array): Promise<void> => fuzzer.try(input)
  const kept: Uint8Array[] = []
  const take = async (inputs: readonly Uint8Array[]): Promise<void> => {
    for (const found of await coverage.reaching(inputs, run)) {
      if (found.length > MAX_KEPT_BYTES) continue
      kept.push(found)
      if (isGuided) fuzzer.pool.push(found)
    }
  }
  const corpus = [...fuzzer.pool]
  if (isGuided) fuzzer.pool.length = 0
  // Short ones first: of several that reach the same the shortest is kept.
  for (const input of corpus.toSorted((a, b) => a.length - b.length)) await take([input])
  if (fuzzer.pool.length === 0) fuzzer.pool.push(...corpus)
  const end = performance.now() + milliseconds
  while (performance.now() < end) await take(Array.from({ length: BATCH }, () => fuzzer.next()))
  return { inputs: fuzzer.inputs, kept, failures: [...fuzzer.failures.values()] }
}

/** Writes the inputs that were kept into the file of the target, behind its first comments. */
export function writeCorpus(target: Target, inputs: readonly Uint8Array[]): void {
  const path = corpusFile(target)
  let before = ''
  try {
    before = readFileSync(path, 'utf8')
  } catch {
    // The first one of this target.
  }
  const comments = before.split('\n').filter((line) => line.startsWith('#'))
  const lines = inputs.map(lineOf).sort((a, b) => a.length - b.length || (a < b ? -1 : 1))
  writeFileSync(path, `${[...comments, ...new Set(lines)].join('\n')}\n`)
}
