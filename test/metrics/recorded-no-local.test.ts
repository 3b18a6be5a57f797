/**
 * kubeproxy_sync_proxy_rules_no_local_endpoints_total after every recorded step, in both modes,
 * beside what kube-proxy had. A step that is neither equal nor listed fails the test, and so does a
 * listed step that is equal.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { SyncCounts } from '../../src/metrics/sync-counts.ts'
import { IP_FAMILIES } from '../../src/values/protocol.ts'
import { type RecordedStep, recordedCases, walkCase } from '../support/recorded-cases.ts'
import { recordingPath } from '../support/recordings.ts'

const DIFFERENT: Readonly<Record<string, string>> = {
  'ipvs drift-ipset-wrong-parameters/1': 'deviation 36: kube-proxy stops at a set with other parameters',
}

function recordedCounts(mode: 'ipvs' | 'iptables', step: string): Readonly<Record<string, number>> | undefined {
  const [name, number] = step.split('/')
  const file = recordingPath(`cases/${name}/recorded/${mode}/${number}/metrics.txt`)
  if (!existsSync(file)) return undefined
  const lines = readFileSync(file, 'utf8').matchAll(
    /^kubeproxy_sync_proxy_rules_no_local_endpoints_total\{ip_family="(\w+)",traffic_policy="(\w+)"\} (\d+)$/gm,
  )
  const found = Array.from(lines, ([, family, policy, value]) => [`${family} ${policy}`, Number(value)] as const)
  return found.length === 0 ? undefined : Object.fromEntries(found)
}

function ourCounts(mode: 'ipvs' | 'iptables', { frontends }: RecordedStep): Readonly<Record<string, number>> {
  const counts = new SyncCounts({
    families: IP_FAMILIES,
    wallMs: () => 0,
    rulesPending: mode === 'iptables' ? () => false : undefined,
  })
  for (const [key, frontend] of frontends) counts.frontend(key, frontend)
  return Object.fromEntries(
    IP_FAMILIES.flatMap((family) =>
      (['internal', 'external'] as const).map((policy) => [
        `${family} ${policy}`,
        counts.withoutLocalEndpoints(family, policy),
      ]),
    ),
  )
}

let compared = 0
for (const name of recordedCases())
  test(`the recorded count of Services without local endpoints, case ${name}`, () =>
    walkCase(name, (step) => {
      for (const mode of ['ipvs', 'iptables'] as const) {
        const theirs = recordedCounts(mode, step.name)
        if (theirs === undefined) continue
        compared++
        const ours = ourCounts(mode, step)
        const listed = DIFFERENT[`${mode} ${step.name}`]
        if (listed === undefined) assert.deepEqual(ours, theirs, `${mode} ${step.name}`)
        else assert.notDeepEqual(ours, theirs, `${mode} ${step.name} is equal, but listed: ${listed}`)
      }
    }))
test('recorded counts were compared', () => assert.ok(compared > 150, String(compared)))
