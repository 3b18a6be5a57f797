/**
 * `npm run bench`: measures the programs at each size, in fresh boots, and prints a report or one JSON object a line.
 * Progress goes to stderr.
 */
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runBench } from './bench/bench.ts'
import { formatComparison } from './bench/compare.ts'
import { runExperiment } from './bench/experiment.ts'
import { runHandover } from './bench/handover.ts'
import { formatHandover, isWithoutLoss } from './bench/handover-result.ts'
import { runHostile } from './bench/hostile.ts'
import { parseBenchOptions } from './bench/options.ts'
import { appendRun, readRuns, type Run } from './bench/record.ts'
import { COLOURED, formatMachine, formatReport, formatTrust, PLAIN } from './bench/report.ts'
import { type BenchResult, formatJson } from './bench/result.ts'
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
  if (options.compare !== undefined) return compareLastTwo(options.compare)
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
    const host = { choice, folder, bundled, kubeProxy, signal: abort.signal }
    const { experiment, handover } = options
    if (experiment !== undefined) {
      for (const path of await runExperiment({ ...host, options, plan: experiment })) say(path)
      return 0
    }
    if (handover !== undefined) {
      const result = await runHandover({ ...host, options, counts: handover })
      process.stdout.write(`${options.output === 'json' ? JSON.stringify(result) : formatHandover(result)}\n`)
      return isWithoutLoss(result) ? 0 : 1
    }
    if (options.hostile) {
      const [services = 0] = options.sizes
      process.stdout.write(`${await runHostile(host, { services, changes: options.changes })}\n`)
      return 0
    }
    const onSize = (results: readonly BenchResult[]): void => {
      if (options.output === 'json') for (const result of results) process.stdout.write(`${formatJson(result)}\n`)
    }
    print(await runBench({ ...host, options, onSize }))
    return 0
  } catch (error) {
    if (abort.signal.aborted) return 130
    say(error instanceof Error ? error.message : String(error))
    return 1
  } finally {
    for (const path of [folder, bundled]) rmSync(path, { recursive: true, force: true })
  }
}

/** 0 when they agree, 1 when not. */
function compareLastTwo(file: string): number {
  try {
    const [before, after] = readRuns(file).slice(-2)
    if (before === undefined || after === undefined) {
      say(`${file} holds fewer than two runs`)
      return 2
    }
    const { text, agree } = formatComparison(before, after)
    process.stdout.write(`${text}\n`)
    return agree ? 0 : 1
  } catch (error) {
    say(error instanceof Error ? error.message : String(error))
    return 2
  }
}

/** With --output json each size has been printed already. */
function print(run: Run): void {
  const { output, jsonFile } = run.options
  if (output === 'json') {
    say(`${formatMachine(run, PLAIN)}\n\n${formatTrust(run, PLAIN)}`)
  } else {
    const coloured = process.stdout.isTTY && !process.env['NO_COLOR']
    process.stdout.write(`${formatReport(run, coloured ? COLOURED : PLAIN)}\n`)
  }
  if (jsonFile !== undefined) appendRun(jsonFile, run)
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
