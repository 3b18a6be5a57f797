/**
 * The part of `npm run test:packets` that runs on the test kernel: trial after trial, with a line
 * of progress for each, then the table. Ends with 1 after a difference that is not allowed, an
 * allowed one that did not occur, or a mutant that is known to be noticed and was not.
 */
import { isMet } from '../kernel/needs.ts'
import { FAMILIES } from '../support/every-kind.ts'
import { type Firewall, FIREWALLS, IPTABLES_LEGACY, IPTABLES_NFT } from '../support/firewalls.ts'
import { type AllowedDifference, readDifferences } from './differences.ts'
import { type Difference, formatDifferences } from './judge.ts'
import { isEquivalent, isOfFamily } from './mutants.ts'
import { inWorlds, judgeMutants, packetsFor, runTrial, trialsOf } from './run.ts'
import { EVERY_RULE } from './scenario.ts'
import { Summary } from './summary.ts'

/** The task from the host, as one argument of JSON. */
export interface PacketTask {
  readonly packets: number
  readonly seed: number
  /** Names of firewalls that are compared with the first; empty: all. */
  readonly firewalls: readonly string[]
  readonly mutants: boolean
}

const SERVICES = 6
const PACKETS_EACH = 300
const MUTANT_PACKETS = 600

const task = JSON.parse(process.argv[2] ?? '') as PacketTask // written by main.ts
const print = (line: string): boolean => process.stdout.write(`${line}\n`)
const failures: string[] = []
if (task.mutants) await runMutants()
else await runTrials()
for (const failure of failures) print(`FAIL ${failure}`)
process.exit(failures.length === 0 ? 0 : 1)

async function runTrials(): Promise<void> {
  const [first, ...rest] = FIREWALLS
  const judged = rest.filter(
    ({ name, need }) => (task.firewalls.length === 0 || task.firewalls.includes(name)) && isMet(need),
  )
  const firewalls: readonly [Firewall, ...Firewall[]] = [first, ...judged]
  const names = firewalls.map(({ name }) => name)
  if (judged.length === 0 || !isMet(first.need)) return void failures.push('there are no two firewalls to compare')
  print(`seed ${task.seed}: ${names.join(', ')}`)
  const [allowed, used, summary] = [readDifferences(), new Set<AllowedDifference>(), new Summary()]
  const trials = trialsOf(task.seed, Math.ceil(task.packets / PACKETS_EACH), SERVICES, PACKETS_EACH)
  for (const [index, trial] of trials.entries()) {
    const where = `scenario ${index + 1}`
    const result = await runTrial(firewalls, trial, allowed, used).catch((error: unknown) => {
      print(`${index + 1}/${trials.length}: ${error instanceof Error ? error.message : String(error)}`)
      for (const line of formatDifferences([], trial.scenario, first.name)) print(line)
      failures.push(`${where} did not begin`)
    })
    if (result === undefined) continue
    summary.add(result.reference, result.forbidden)
    const unsteady = result.unsteady.length === 0 ? '' : `, ${result.unsteady.length} that did not show again`
    print(
      `${index + 1}/${trials.length}: ${summary.packets} packets, ${result.forbidden.length} differences${unsteady}`,
    )
    report(result.forbidden, formatDifferences(result.forbidden, trial.scenario, first.name), where)
  }
  for (const entry of allowed)
    if (names.includes(entry.firewall) && !used.has(entry))
      failures.push(`an allowed difference of ${entry.firewall} did not occur: ${entry.reason}`)
  for (const line of summary.table) print(line)
  if (summary.packets < task.packets) failures.push(`only ${summary.packets} packets were sent`)
}

/** Each rule and each set of the legacy back end is missing once. */
async function runMutants(): Promise<void> {
  let [noticed, equivalent] = [0, 0]
  for (const family of FAMILIES) {
    const packets = packetsFor(EVERY_RULE, task.seed, MUTANT_PACKETS, (packet) => packet.family === family)
    const left = await inWorlds([IPTABLES_NFT, IPTABLES_LEGACY], EVERY_RULE, async ([reference, mutated]) => {
      if (mutated === undefined) throw new Error('there is no second world')
      return judgeMutants([reference, mutated], packets, isOfFamily(family), (mutant, { length }) => {
        print(`${length === 0 ? 'not noticed' : `${length} differences`}: ${mutant.name}`)
        if (length > 0) noticed++
        else if (isEquivalent(mutant)) equivalent++
        else failures.push(`not noticed: ${mutant.name}`)
      })
    })
    report(left, formatDifferences(left, EVERY_RULE, IPTABLES_NFT.name), 'after all mutants')
  }
  print(`${noticed} mutants noticed, ${equivalent} change nothing for any packet`)
}

function report(differences: readonly Difference[], lines: readonly string[], where: string): void {
  if (differences.length === 0) return
  for (const line of lines) print(line)
  failures.push(`${differences.length} differences in ${where}`)
}
