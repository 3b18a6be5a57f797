/**
 * Notices an input that never ends: a second thread sees that the main thread has read the same
 * input for very long, writes that input into a file and ends the process.
 */
import { isMainThread, Worker, workerData } from 'node:worker_threads'
import { mkdirSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { lineOf } from './corpus.ts'

/** An input that runs longer hangs, on the busiest machine too. */
const HANGS_AFTER_MS = 120_000
const LOOK_MS = 5000
const MAX_INPUT_BYTES = 128 * 1024
const MAX_NAME_BYTES = 64

interface Shared {
  /** Number of the input, its length, and the length of the target's name. */
  readonly numbers: Int32Array
  readonly name: Uint8Array
  readonly input: Uint8Array
}

function views(buffer: SharedArrayBuffer): Shared {
  return {
    numbers: new Int32Array(buffer, 0, 3),
    name: new Uint8Array(buffer, 12, MAX_NAME_BYTES),
    input: new Uint8Array(buffer, 12 + MAX_NAME_BYTES, MAX_INPUT_BYTES),
  }
}

export class Watchdog {
  readonly #shared: Shared
  readonly #worker: Worker

  /** @param folder for the file with the input */
  constructor(folder: string) {
    const buffer = new SharedArrayBuffer(12 + MAX_NAME_BYTES + MAX_INPUT_BYTES)
    this.#shared = views(buffer)
    this.#worker = new Worker(new URL(import.meta.url), { workerData: { buffer, folder } })
    this.#worker.unref()
  }

  /** Says which input begins now. */
  begins(target: string, input: Uint8Array): void {
    const { numbers, name, input: copy } = this.#shared
    const length = Math.min(input.length, MAX_INPUT_BYTES)
    copy.set(input.subarray(0, length))
    const letters = Buffer.from(target).subarray(0, MAX_NAME_BYTES)
    name.set(letters)
    Atomics.store(numbers, 1, length)
    Atomics.store(numbers, 2, letters.length)
    Atomics.add(numbers, 0, 1)
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }
}

function watch({ buffer, folder }: { readonly buffer: SharedArrayBuffer; readonly folder: string }): void {
  const { numbers, name, input } = views(buffer)
  let [seen, since] = [-1, performance.now()]
  setInterval(() => {
    const number = Atomics.load(numbers, 0)
    if (number !== seen) [seen, since] = [number, performance.now()]
    if (number === 0 || performance.now() - since < HANGS_AFTER_MS) return
    const target = Buffer.from(name.slice(0, numbers[2])).toString()
    const path = join(folder, `${target}-hangs.txt`)
    mkdirSync(folder, { recursive: true })
    writeFileSync(path, `# ran for more than ${HANGS_AFTER_MS / 1000} s\n${lineOf(input.slice(0, numbers[1]))}\n`)
    writeSync(2, `${target}: an input hangs: ${path}\n`)
    process.kill(process.pid, 'SIGKILL')
  }, LOOK_MS)
}

if (!isMainThread && workerData !== null) watch(workerData as Parameters<typeof watch>[0]) // as the constructor gave it
