/**
 * Node loads this into the measured program before the program (`--require`), because only that process knows what it says: the longest time
 * between two turns of its event loop, when changes of slices arrived, and when the kernel had run which command. Each SIGUSR2 begins or ends watching,
 * and puts a reading into the file that KUBE_IPVS_BENCH_FILE names. Plain CommonJS: whatever else Node loaded for it would be in the figures.
 */
const { subscribe, unsubscribe } = require('node:diagnostics_channel')
const { renameSync, writeFileSync } = require('node:fs')
const { monitorEventLoopDelay } = require('node:perf_hooks')

/** Of src/sync/channels.ts. */
const ARRIVED = 'kube-ipvs:changes-arrived'
const WRITTEN = 'kube-ipvs:batch-written'
const RESOLUTION_MS = 2
const MAX_MESSAGES = 200_000

const file = process.env['KUBE_IPVS_BENCH_FILE'] ?? ''
const monotonicMs = () => Number(process.hrtime.bigint()) / 1e6

/** From its construction to `end`. */
class Watch {
  /** @type {[key: string, atMs: number][]} */
  arrivals = []
  /**
   * Batches are kept as they are, and become text at the end.
   * @type {[batch: import('../../src/sync/channels.ts').BatchWritten, atMs: number][]}
   */
  batches = []
  delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })

  constructor() {
    this.delay.enable()
    subscribe(ARRIVED, this.arrived)
    subscribe(WRITTEN, this.written)
  }

  /** @param {import('../../src/sync/channels.ts').ChangesArrived} message */
  arrived = ({ changes }) => {
    const atMs = monotonicMs()
    for (const { kind, key } of changes)
      if (kind === 'endpointslices' && this.arrivals.length < MAX_MESSAGES) this.arrivals.push([key, atMs])
  }

  /** @param {import('../../src/sync/channels.ts').BatchWritten} batch */
  written = (batch) => {
    if (batch.table === 'virtual-servers' && this.batches.length < MAX_MESSAGES)
      this.batches.push([batch, monotonicMs()])
  }

  end() {
    unsubscribe(ARRIVED, this.arrived)
    unsubscribe(WRITTEN, this.written)
    this.delay.disable()
    return {
      eventLoopMaxMs: this.delay.max / 1e6,
      arrivals: this.arrivals,
      writes: this.batches.flatMap(([{ operations, outcomes, text }, atMs]) =>
        operations.flatMap((op, index) => (outcomes[index] === undefined ? [[text(op), atMs]] : [])),
      ),
    }
  }
}

let signals = 0
/** @type {Watch | undefined} */
let watch

process.on('SIGUSR2', () => {
  signals++
  const seen = watch?.end() ?? { eventLoopMaxMs: null, arrivals: [], writes: [] }
  watch = watch === undefined ? new Watch() : undefined
  writeFileSync(`${file}.new`, JSON.stringify({ signals, ...seen }))
  renameSync(`${file}.new`, file)
})
