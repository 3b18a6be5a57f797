/**
 * Node loads this into the program of the soak (`--require`). After SIGUSR2 it collects all garbage and writes what is left into the file
 * that KUBE_IPVS_SOAK_FILE names: bytes, and how many objects of some classes are alive. Plain CommonJS: whatever else Node loaded for it
 * would be in the figures.
 */
const { renameSync, writeFileSync } = require('node:fs')

const file = process.env['KUBE_IPVS_SOAK_FILE'] ?? ''
const timer = setTimeout(() => {}, 0)
const CLASSES = { timers: timer.constructor, promises: Promise }
clearTimeout(timer)

process.on('SIGUSR2', () => {
  const v8 = require('node:v8')
  v8.setFlagsFromString('--expose-gc')
  require('node:vm').runInNewContext('gc')()
  const { heapUsed, external } = process.memoryUsage()
  const alive = Object.entries(CLASSES).map(([name, constructor]) => [name, v8.queryObjects(constructor)])
  const handles = process.getActiveResourcesInfo().length
  const reading = { heapBytes: heapUsed, externalBytes: external, handles, ...Object.fromEntries(alive) }
  writeFileSync(`${file}.new`, JSON.stringify(reading))
  renameSync(`${file}.new`, file)
})
