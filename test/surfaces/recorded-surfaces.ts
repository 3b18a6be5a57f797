/**
 * The recorded surfaces as tests, for `npm test -- --all`: one for each command line, file and
 * answer of kube-proxy.
 */
import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { describe, it } from 'node:test'
import { judge } from '../support/deviations.ts'
import { recordingPath } from '../support/recordings.ts'
import { readSurfaces } from './folder.ts'
import { joined, readSurfaceDeviations } from './surface-case.ts'

const deviations = new Map(readSurfaceDeviations().map((deviation) => [deviation.case, deviation]))

// A case mostly waits for a process that it starts.
describe('the recorded surfaces', { concurrency: availableParallelism() + 1 }, () => {
  const { cases, missing } = readSurfaces(recordingPath('surfaces'))
  it('are all there', () => assert.deepEqual(missing, []))
  for (const one of cases)
    it(one.name, async () => {
      const verdict = judge(joined(await one.run()), deviations.get(one.name))
      assert.equal(verdict.kind === 'differs' ? verdict.text : '', '')
    })
})
