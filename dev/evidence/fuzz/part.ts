/** The part `fuzz` of the evidence: all targets, with a seed that is in the data. */
import { join } from 'node:path'
import { projectFolder, say } from '../../progress.mjs'
import type { Part } from '../part.ts'
import { LIMITS } from './judge.ts'
import { runFuzzer, type TargetResult } from './run.ts'
import { TARGETS } from './targets/all.ts'

const SEED = 1
const HOURS = 0.5
/** Folder for the inputs of finds. */
export const FINDS = join(projectFolder, 'dist/evidence/fuzz')

export const fuzz: Part = {
  name: 'fuzz',
  purpose: 'inputs that no well-behaved program sends, for every reader of foreign bytes and texts',
  run: async ({ hours = HOURS }) => {
    const targets = await runFuzzer({ targets: TARGETS, hours, seed: SEED, finds: FINDS, say })
    const total = (of: (target: TargetResult) => number): number => targets.reduce((sum, target) => sum + of(target), 0)
    const inputs = total((target) => target.inputs)
    const seconds = Math.round(total((target) => target.seconds))
    return {
      problems: targets.flatMap(({ name, finds }) => finds.map((find) => `${name}: ${find}`)),
      inputs,
      processorSeconds: seconds,
      inputsPerProcessorSecond: Math.round(inputs / Math.max(1, seconds)),
      corpus: total((target) => target.corpus),
      seed: SEED,
      limits: LIMITS,
      targets,
    }
  },
}
