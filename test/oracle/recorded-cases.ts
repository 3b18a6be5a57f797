/**
 * Recorded cases as tests, for `npm test -- --all`:
 * `recorded-cases.ts?mode=ipvs&part=2&of=8&ground=fresh` holds every eighth case of ipvs mode, from
 * the second on, that runs in a new network namespace. The runner gives each part a process, beside
 * the files of test/kernel.
 */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { PROGRAM_VARIABLE } from '../../dev/testing/variables.ts'
import { recordingPath } from '../support/recordings.ts'
import { groundOf } from './case-file.ts'
import { readStateDeviations } from './deviations.ts'
import { COMPARED } from './files.ts'
import { casesOf, readPart } from './parts.ts'
import { formatCase } from './result.ts'
import { type CaseSetting, runCase } from './run-case.ts'

const cases = recordingPath('cases')
const part = readPart(new URL(import.meta.url).search)
const { mode } = part
const entry = process.env[PROGRAM_VARIABLE]
if (entry === undefined) throw new Error('recorded cases need the bundle: run them as npm test -- --all')
const setting: CaseSetting = {
  cases,
  defaultCases: cases,
  entry,
  deviations: readStateDeviations().filter((one) => (one.mode ?? 'ipvs') === mode),
  compared: COMPARED,
}
try {
  writeFileSync('/proc/sys/kernel/hostname', 'node0')
} catch {
  // Every configuration names the node by hostnameOverride.
}

describe(`the recorded cases of ${mode} mode`, () => {
  for (const name of casesOf(part, cases))
    it(name, async () => {
      const result = await runCase({ name, mode, ground: groundOf(cases, name) }, setting)
      assert.deepEqual(result.failures, [], formatCase(result, true).join('\n'))
    })
})
