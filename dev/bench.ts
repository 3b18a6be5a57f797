/**
 * `npm run bench`: measures the programs at each size, in fresh boots, and prints a report or one
 * JSON object a line. Progress goes to stderr.
 */
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BenchSetting, runBench } from './bench/bench.ts'
import { runHandover } from './bench/handover.ts'
import { formatHandover, isWithoutLoss } from './bench/handover-result.ts'
import type { HostSetting } from './bench/host.ts'
import { runHostile } from './bench/hostile.ts'
import { type BenchOptions, parseBenchOptions } from './bench/options.ts'
import { formatMachine, formatReport, formatTrust } from './bench/report.ts'
import { formatJson } from './bench/result.ts'
import { CHOICE_VARIABLE, chosenKernel } from './kernel/choice.ts'
import { endWithParent } from './parent.ts'

const ROOT = join(import.meta.dirname, '..')
const say = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

async function main(args: readonly string[]): Promise<number> {
  const kubeProxy = process.env['KUBE_PROXY'] || undefined
  const options = parseBenchOptions(args, kubeProxy !== undefined)
  if ('error' in options) {
    say(`${options.error}; npm run bench -- --help lists the options`)
    return 2
  }
  if (kubeProxy !== undefined && !isExecutable(kubeProxy)) {
    say(`KUBE_PROXY names ${kubeProxy}, which is not there or not executable.`)
    return 2
  }
  const choice = chosenKernel(process.env)
  if (choice === undefined) {
    say(`The bench needs a kernel with IPVS (${CHOICE_VARIABLE} is empty): run it as npm run bench.`)
    return 1
  }
  const abort = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => abort.abort())
  endWithParent(abort)
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-bench-'))
  // Inside the repository: the bundle finds koffi in its node_modules.
  mkdirSync(join(ROOT, '.cache'), { recursive: true })
  const bundled = mkdtempSync(join(ROOT, '.cache/bench-'))
  try {
    return await run({ choice, folder, bundled, kubeProxy, signal: abort.signal }, options)
  } catch (error) {
    if (abort.signal.aborted) return 130
    say(error instanceof Error ? error.message : String(error))
    return 1
  } finally {
    for (const path of [folder, bundled]) rmSync(path, { recursive: true, force: true })
  }
}

/** Measures and prints; the exit code. */
async function run(host: HostSetting, options: BenchOptions): Promise<number> {
  const { what, output, sizes, changes } = options
  const print = (text: string): boolean => process.stdout.write(`${text}\n`)
  if (what === 'hostile') {
    print(await runHostile(host, { services: sizes[0] ?? 0, changes }))
    return 0
  }
  if (what === 'handover') {
    const result = await runHandover(host, options)
    print(output === 'json' ? JSON.stringify(result) : formatHandover(result))
    return isWithoutLoss(result) ? 0 : 1
  }
  const inJson = output === 'json'
  const onSize: BenchSetting['onSize'] = (results) => (inJson ? results.map(formatJson).forEach(print) : undefined)
  const measured = await runBench({ ...host, options, onSize })
  if (inJson) say(`${formatMachine(measured)}\n\n${formatTrust(measured)}`)
  else print(formatReport(measured))
  return 0
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

process.exit(await main(process.argv.slice(2)))
