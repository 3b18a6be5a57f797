import assert from 'node:assert/strict'
import { test } from 'node:test'
import { logFindings } from '../../../src/modes/ipvs/node-preparation.ts'
import type { Finding } from '../../../src/node/start-check.ts'
import { recordingLog } from '../../support/recording-log.ts'

const FINDINGS: readonly Finding[] = [
  { what: 'scheduler mh', module: 'ip_vs_mh', effect: 'no virtual server can be made', severity: 'fatal' },
  { what: 'sysctl net/ipv4/vs/conntrack', module: '', effect: 'nothing is masqueraded', severity: 'error' },
  { what: 'match ipvs', module: 'xt_ipvs', effect: 'its rule is left out', severity: 'warning' },
]

test('logFindings writes one line for each finding, with its severity', () => {
  const log = recordingLog()
  logFindings(FINDINGS, log)
  assert.deepEqual(
    log.lines.map(({ level, fields }) => `${level} ${String(fields['what'])} ${String(fields['module'] ?? '-')}`),
    ['error scheduler mh ip_vs_mh', 'error sysctl net/ipv4/vs/conntrack -', 'warn match ipvs xt_ipvs'],
  )
})
