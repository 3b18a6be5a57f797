/**
 * The part `soak` of the evidence: the daemon in a guest kernel, 100 changes a second for hours,
 * and what grows meanwhile.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { boot } from '../bench/boot.ts'
import { bundle } from '../bundle.ts'
import { describeKernel, type KernelChoice } from '../kernel/choice.ts'
import { chooseKernel } from '../kernel/choose.mjs'
import { ensurePackages } from '../packages.mjs'
import { projectFolder, say } from '../progress.mjs'
import type { Part } from './part.ts'
import type { SoakOutcome, SoakTask } from './soak/guest.ts'
import { judgeSoak } from './soak/judge.ts'

const HOURS = 2
const SEED = 1
/** Boot, two starts, and the last round. */
const BESIDE_MS = 3_600_000
/** All that the guest has said, with each single time. */
const OUTPUT = join(projectFolder, 'dist/evidence/soak')
const TOOLS = ['ip', 'ipvsadm', 'iptables', 'ipset', 'nft']

export const soak: Part = {
  name: 'soak',
  purpose: '100 changes a second for hours: what grows, what stays behind in the kernel, how long the event loop waits',
  run: async ({ hours = HOURS, signal }) => {
    await ensurePackages(TOOLS)
    const choice = (await chooseKernel(process.env)) as KernelChoice // as dev/kernel/choice.ts describes it
    // Inside the repository: the bundle finds koffi in its node_modules.
    mkdirSync(join(projectFolder, '.cache'), { recursive: true })
    const directory = mkdtempSync(join(projectFolder, '.cache/soak-'))
    try {
      const { entry } = await bundle({ directory, minify: true })
      say(`Kernel: ${describeKernel(choice)}`)
      const seconds = Math.round(hours * 3600)
      const task: SoakTask = { entry, seconds, seed: SEED }
      const command = [process.execPath, join(import.meta.dirname, 'soak/guest.ts'), JSON.stringify(task)]
      const options = { choice, cwd: projectFolder, signal }
      const { code, stdout } = await boot(command, BESIDE_MS + seconds * 1000, options)
      if (code !== 0) throw new Error(`the soak ended with code ${code}`)
      mkdirSync(OUTPUT, { recursive: true })
      writeFileSync(join(OUTPUT, 'outcome.json'), stdout)
      return { seed: SEED, ...judgeSoak(JSON.parse(stdout) as SoakOutcome) } // written by soak/guest.ts
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  },
}
