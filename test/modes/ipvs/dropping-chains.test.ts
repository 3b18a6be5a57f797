/** When chains of other firewalls that drop answers are reported. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type DroppingChain, reportDropping } from '../../../src/modes/ipvs/dropping-chains.ts'
import { AuditShare } from '../../../src/sync/audit.ts'
import type { Problem } from '../../../src/values/errors.ts'
import { stretchesOf } from '../../support/budgets.ts'
import { recordingLog } from '../../support/recording-log.ts'

const CHAIN: DroppingChain = { table: 'inet wall', chain: 'forward', hook: 'forward', isOfIptables: false }

test('reportDropping reports what it found before it rests for the work, and rests also after a failure', async () => {
  const { signal } = new AbortController()
  let found: readonly Problem[] = []
  const seen: string[] = []
  const sleep = async (): Promise<void> => void seen.push(`rest with ${found.length} problems`)
  const report = {
    problems: { report: (_: string, __: string, all: readonly Problem[]) => void (found = all) },
    log: recordingLog(),
    signal,
    share: new AuditShare({ share: 0.001, now: () => 0, sleep }),
  }
  for (const fails of [false, true])
    await reportDropping(
      {
        ...report,
        dropping: async (_, budget) => {
          assert.ok(budget !== undefined)
          await stretchesOf(budget, 20)
          if (fails) throw new Error('refused')
          return [CHAIN]
        },
      },
      new Set(),
    )
  assert.deepEqual(seen, ['rest with 1 problems', 'rest with 1 problems'])
  assert.deepEqual(
    report.log.lines.map(({ message }) => message),
    ['Cannot ask the kernel for chains of other firewalls'],
  )
})
