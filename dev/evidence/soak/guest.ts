/**
 * The program of the soak in the guest. `fresh` prints what the kernel has after a fresh start in
 * this network namespace; without it the soak runs, and compares with that. Each prints JSON.
 */
import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { monotonicMs } from '../../bench/table-view.ts'
import { countsOf, listKernel, type Listing } from './listing.ts'
import { SoakNode } from './node.ts'
import { Soak, type Soaked } from './run.ts'

export interface SoakTask {
  /** Our bundle's. */
  readonly entry: string
  readonly seconds: number
  readonly seed: number
}

/** One line of JSON on standard output. */
export interface SoakOutcome extends Soaked {
  readonly complaints: Readonly<Record<string, number>>
  /** What the kernel has after a fresh start, by kind. */
  readonly objects: Readonly<Record<string, number>>
}

const FRESH_MS = 600_000
/** Unchanged for so long, and nothing for `kube-ipvs diff` to say: the start is over. */
const UNCHANGED_MS = 8_000

/** A fresh start in a network namespace of its own, which ends with this process. */
async function fresh({ entry }: SoakTask): Promise<Listing> {
  const node = await SoakNode.start(entry)
  try {
    return await settled(node)
  } finally {
    await node.stop()
  }
}

async function settled(node: SoakNode): Promise<Listing> {
  const endMs = monotonicMs() + FRESH_MS
  for (let before = '', sinceMs = monotonicMs(); monotonicMs() < endMs && node.program.isAlive; await sleep(1_000)) {
    const listing = listKernel()
    const now = listing.join('\n')
    if (now !== before || !now.includes('ipvs -A')) {
      before = now
      sinceMs = monotonicMs()
    } else if (monotonicMs() - sinceMs > UNCHANGED_MS && (await node.diff()) === '') return listing
  }
  throw new Error(`the start did not end; ${await node.diff()}\n${node.program.logTail}`)
}

async function soak(task: SoakTask): Promise<SoakOutcome> {
  const args = ['--net', process.execPath, import.meta.filename, JSON.stringify(task), 'fresh']
  const text = execFileSync('unshare', args, {
    encoding: 'utf8',
    maxBuffer: 256 << 20,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const listing = JSON.parse(text) as Listing // printed by the same file
  const node = await SoakNode.start(task.entry)
  const say = (line: string): void => void process.stderr.write(`  ${line}\n`)
  try {
    await settled(node)
    say(`a fresh start: ${JSON.stringify(countsOf(listing))}`)
    const soaked = await new Soak(node, listing, task.seed, say).run(task.seconds)
    return { ...soaked, complaints: node.complaints(), objects: countsOf(listing) }
  } catch (error) {
    process.stderr.write(`${node.program.logTail}\n`)
    throw error
  } finally {
    await node.stop()
  }
}

const task = JSON.parse(process.argv[2] ?? '') as SoakTask // written by ../soak.ts
const result = process.argv[3] === 'fresh' ? await fresh(task) : await soak(task)
// Written as a whole before this process ends.
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0))
