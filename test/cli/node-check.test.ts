import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findingsText, logFindings } from '../../src/cli/node-check.ts'
import type { Finding } from '../../src/node/start-check.ts'
import { recordingLog } from '../support/recording-log.ts'

const FINDINGS: readonly Finding[] = [
  { what: 'scheduler mh', module: 'ip_vs_mh', effect: 'no virtual server can be made', severity: 'fatal' },
  { what: 'sysctl net/ipv4/vs/conntrack', module: '', effect: 'nothing is masqueraded', severity: 'error' },
  { what: 'match ipvs', module: 'xt_ipvs', effect: 'its rule is left out', severity: 'warning' },
]

test('findingsText is a table with aligned columns', () => {
  assert.deepEqual(
    findingsText(FINDINGS, (_, text) => text),
    [
      'SEVERITY  MISSING                       MODULE    EFFECT',
      'fatal     scheduler mh                  ip_vs_mh  no virtual server can be made',
      'error     sysctl net/ipv4/vs/conntrack  -         nothing is masqueraded',
      'warning   match ipvs                    xt_ipvs   its rule is left out',
    ],
  )
  assert.match(
    findingsText(FINDINGS, (format, text) => `<${String(format)}:${text}>`)[3] ?? '',
    /^<yellow:warning> +match/,
  )
  assert.deepEqual(
    findingsText([], (_, text) => text),
    ['The kernel has everything that ipvs mode needs.'],
  )
})

test('logFindings writes one line for each, as bad as it is', () => {
  const log = recordingLog()
  logFindings(FINDINGS, log)
  assert.deepEqual(
    log.lines.map(({ level, fields }) => `${level} ${String(fields['what'])} ${String(fields['module'] ?? '-')}`),
    ['error scheduler mh ip_vs_mh', 'error sysctl net/ipv4/vs/conntrack -', 'warn match ipvs xt_ipvs'],
  )
})
