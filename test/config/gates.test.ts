import assert from 'node:assert/strict'
import { test } from 'node:test'
import { effectiveGates, gate, gateNotices, gatesWithoutEffect, unknownGates } from '../../src/config/gates.ts'

test('gate prefers the value set by name over AllAlpha and AllBeta, and those over the default', () => {
  const rows: readonly (readonly [gates: Record<string, boolean>, name: Parameters<typeof gate>[1], on: boolean])[] = [
    [{}, 'AllowServiceExternalIPs', true],
    [{ AllowServiceExternalIPs: false }, 'AllowServiceExternalIPs', false],
    [{}, 'LoggingAlphaOptions', false],
    [{ AllAlpha: true }, 'LoggingAlphaOptions', true],
    [{ AllAlpha: true, LoggingAlphaOptions: false }, 'LoggingAlphaOptions', false],
    [{ AllBeta: false }, 'LoggingBetaOptions', false],
    [{ AllBeta: false }, 'AllowServiceExternalIPs', true],
  ]
  for (const [featureGates, name, on] of rows)
    assert.equal(gate({ featureGates }, name), on, `${JSON.stringify(featureGates)} ${name}`)
})

test('unknownGates finds gates of no known release, and effectiveGates leaves them out', () => {
  const gates = { KubeProxyIPVS: true, NoSuchGate: true, WatchList: false }
  assert.deepEqual(unknownGates(gates), [{ name: 'NoSuchGate', guess: undefined }])
  assert.deepEqual(effectiveGates(gates), { KubeProxyIPVS: true, WatchList: false })
})

test('gatesWithoutEffect lists the known gates that this program does not read', () => {
  const gates = { AllAlpha: true, AllowServiceExternalIPs: false, NoSuchGate: true, WatchList: true }
  assert.deepEqual(gatesWithoutEffect({ ...gates, KubeProxyIPVS: true }), ['WatchList'])
  assert.deepEqual(gatesWithoutEffect({ KubeProxyIPVS: false }), ['KubeProxyIPVS'])
})

test('gateNotices leaves out the gate that keeps ipvs mode', () => {
  assert.deepEqual(gateNotices({ KubeProxyIPVS: true, WatchList: true }), [])
  assert.equal(gateNotices({ KMSv1: true }).length, 1)
})
