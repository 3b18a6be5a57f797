/**
 * Upgrade and rollback: kube-ipvs follows an older kube-ipvs and kube-proxy of five releases in
 * each mode, and the other way round, on one node and node by node, while connections are counted.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { boot } from '../bench/boot.ts'
import { compile } from '../bench/floor.ts'
import { describeKernel, type KernelChoice } from '../kernel/choice.ts'
import { chooseKernel } from '../kernel/choose.mjs'
import { ensurePackages } from '../packages.mjs'
import { projectFolder, say, Unmet } from '../progress.mjs'
import { goProgram } from './go-program.ts'
import type { Part, PartResult } from './part.ts'
import type { Outcome, UpgradeTask } from './upgrade/guest.ts'
import { olderKubeIpvs } from './upgrade/older.ts'
import { type Group, GROUPS, programOf, programsOf, type Proxy } from './upgrade/proxies.ts'
import { problemsOf, rowOf, type Step, summaryOf } from './upgrade/rows.ts'

export const upgrade: Part = {
  name: 'upgrade',
  purpose: 'connections while kube-ipvs, kube-proxy of five releases, and older versions follow one another',
  run: async ({ signal }) => resultOf(await measure(GROUPS, signal)),
}

const GUEST = join(import.meta.dirname, 'upgrade/guest.ts')
const TOOLS = ['ip', 'ipvsadm', 'iptables', 'ipset', 'conntrack', 'nft', 'gcc', '/usr/include/stdio.h']
const BOOT_MS = 5_400_000

/** What the groups have shown together. */
export interface Measured {
  readonly kernel: string
  readonly steps: Step[]
  readonly broken: string[]
  /** Programs that are not to be had, with the reason. */
  readonly notRun: readonly string[]
}

export const resultOf = ({ kernel, steps, broken, notRun }: Measured): PartResult => ({
  problems: [...broken, ...steps.flatMap(problemsOf)],
  kernel,
  notRun,
  steps: summaryOf(steps),
  rows: steps.map(rowOf),
})

export async function measure(groups: readonly Group[], signal: AbortSignal): Promise<Measured> {
  await ensurePackages(TOOLS)
  const choice = (await chooseKernel(process.env)) as KernelChoice // as its first comment says
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-upgrade-'))
  try {
    const compiled = await compile(join(projectFolder, 'dev/bench/traffic.c'), folder)
    if ('missing' in compiled) throw new Unmet(compiled.missing)
    const programs = await programsFor(groups, folder)
    const kernel = describeKernel(choice).replace(/ \/.*\//, ' ')
    const measured: Measured = { kernel, steps: [], broken: [], notRun: programs.missing }
    for (const { name, journeys } of groups) {
      const possible = journeys.filter((journey) => programsOf(journey).every((one) => one in programs.commands))
      if (possible.length === 0) continue
      say(`${name}: ${possible.length} journeys ...`)
      const task: UpgradeTask = { journeys: possible, commands: programs.commands, traffic: compiled.program }
      const command = [process.execPath, GUEST, JSON.stringify(task)]
      const options = { choice, cwd: projectFolder, signal }
      const { code, stdout } = await boot(command, BOOT_MS, options)
      if (code !== 0) measured.broken.push(`${name}: the guest ended with code ${code}`)
      else {
        const { steps, broken } = JSON.parse(stdout) as Outcome // written by guest.ts
        measured.steps.push(...steps)
        measured.broken.push(...broken.map((text) => `${name}: ${text}`))
      }
    }
    return measured
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Programs {
  readonly commands: Record<string, readonly string[]>
  /** Why a program is not there, one line each. */
  readonly missing: string[]
}

/** What starts each program of the groups. */
async function programsFor(groups: readonly Group[], folder: string): Promise<Programs> {
  const programs: Programs = { commands: {}, missing: [] }
  for (const proxy of neededBy(groups))
    try {
      programs.commands[programOf(proxy)] = await commandOf(proxy, folder)
    } catch (error) {
      if (!(error instanceof Unmet)) throw error
      programs.missing.push(`${programOf(proxy)}: ${error.message}`)
      say(`${programOf(proxy)} is not run: ${error.message}`)
    }
  return programs
}

async function commandOf({ program, release }: Proxy, folder: string): Promise<readonly string[]> {
  if (program === 'kube-proxy') return [await goProgram('kube-proxy', release, process.env)]
  const ours = release === 'HEAD' ? join(projectFolder, 'bin/kube-ipvs.mjs') : await olderKubeIpvs(release, folder)
  return [process.execPath, ours]
}

/** Each program once. */
function neededBy(groups: readonly Group[]): readonly Proxy[] {
  const all = groups.flatMap(({ journeys }) =>
    journeys.flatMap(({ first, moves }) => [first, ...moves.map(({ to }) => to)]),
  )
  return [...new Map(all.map((proxy) => [programOf(proxy), proxy])).values()]
}
