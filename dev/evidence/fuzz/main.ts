/**
 * `node dev/evidence/fuzz/main.ts [--hours N] [--seed N] [--grow] [WORD...]`: runs the targets whose
 * names contain one of the words, or grows their corpus. It writes no evidence.
 */
import { parseArgs } from 'node:util'
import { say } from '../../progress.mjs'
import { FINDS } from './part.ts'
import { growCorpus, runFuzzer } from './run.ts'
import { TARGETS } from './targets/all.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    hours: { type: 'string', default: '0.1' },
    seed: { type: 'string', default: '1' },
    grow: { type: 'boolean', default: false },
  },
})
const targets = TARGETS.filter(
  ({ name }) => positionals.length === 0 || positionals.some((word) => name.includes(word)),
)
const [hours, seed] = [Number(values.hours), Number(values.seed)]
if (!(hours > 0) || !Number.isInteger(seed) || targets.length === 0) {
  say(`--hours is above 0, --seed a whole number, and the targets are ${TARGETS.map(({ name }) => name).join(', ')}`)
  process.exitCode = 2
} else {
  const options = { targets, hours, seed, finds: FINDS, say }
  if (values.grow) await growCorpus(options)
  else if ((await runFuzzer(options)).some(({ finds }) => finds.length > 0)) process.exitCode = 1
}
