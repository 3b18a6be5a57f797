/**
 * Node loads this into the measured program before the program (`--require`), because only that process can measure the longest time between
 * two turns of its event loop. Each SIGUSR2 begins or ends that, and puts a reading into the file that KUBE_IPVS_BENCH_FILE names. Plain
 * CommonJS: whatever else Node loaded for it would be in the figures.
 */
const { renameSync, writeFileSync } = require('node:fs')
const { monitorEventLoopDelay } = require('node:perf_hooks')

const file = process.env['KUBE_IPVS_BENCH_FILE'] ?? ''
const delay = monitorEventLoopDelay({ resolution: 2 })
let signals = 0

process.on('SIGUSR2', () => {
  signals++
  const begins = signals % 2 === 1
  const maxMs = begins ? null : delay.max / 1e6
  if (begins) delay.enable()
  else delay.disable()
  if (!begins) delay.reset()
  writeFileSync(`${file}.new`, JSON.stringify({ signals, maxMs }))
  renameSync(`${file}.new`, file)
})
