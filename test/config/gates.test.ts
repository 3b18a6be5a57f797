import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readFileSync } from 'node:fs'
import {
  effectiveGates,
  gate,
  gateError,
  gateNotices,
  gatesWithoutEffect,
  unknownGates,
} from '../../src/config/gates.ts'
import { knownGates } from '../../src/config/known-gates.ts'
import { recordingPath } from '../support/recordings.ts'

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

test('unknownGates compares no more gates with the known ones than are reported', () => {
  const gates = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`NoSuchGate${index}`, true]))
  assert.equal(unknownGates(gates).length, 100)
})

test('gatesWithoutEffect lists the known gates that this program does not read', () => {
  const gates = { AllAlpha: true, AllowServiceExternalIPs: false, NoSuchGate: true, WatchList: true }
  assert.deepEqual(gatesWithoutEffect({ ...gates, KubeProxyIPVS: true }), ['WatchList'])
  assert.deepEqual(gatesWithoutEffect({ KubeProxyIPVS: false }), [])
})

test('gateNotices tells of gates that are settled in 1.37 or deprecated, and of no others', () => {
  const words = (gates: Record<string, boolean>): readonly string[] =>
    gateNotices(gates).map(({ gate: name, message }) => `${name} ${message.split(' ')[2]}`)
  assert.deepEqual(words({ WatchList: true, AllBeta: true, AllAlpha: false }), [])
  assert.deepEqual(
    words({ KMSv1: true, KubeProxyIPVS: true, SidecarContainers: true, RelaxedServiceNameValidation: true }),
    ['KMSv1 deprecated', 'KubeProxyIPVS deprecated', 'SidecarContainers GA', 'RelaxedServiceNameValidation GA'],
  )
})

test('knownGates has every gate of the help of kube-proxy, in its stage and with its default', () => {
  const help = readFileSync(recordingPath('surfaces/config/flags.txt'), 'utf8')
  // Of a gate with two defaults the first one counts.
  const shown = [...help.matchAll(/^ *(\w+)=true\|false \((\w+) - default=(\w+)\)/gm)]
  assert.ok(shown.length > 150)
  for (const [, name = '', stage = '', on] of shown) {
    const known = knownGates().get(name)
    assert.deepEqual([name, known?.stage, String(known?.on)], [name, stage.toLowerCase(), on])
  }
})

test('gateError refuses a gate without those it needs where somebody has set it, and lets AllAlpha pass', () => {
  for (const [gates, error] of [
    [{ AllAlpha: true }, undefined],
    [{ AllAlpha: true, AllBeta: true }, undefined],
    [
      { WorkloadWithJob: true },
      'WorkloadWithJob is enabled, but depends on features that are disabled: [GenericWorkload]',
    ],
    [
      { AllAlpha: true, WorkloadWithJob: true },
      'WorkloadWithJob is enabled, but depends on features that are disabled: [GenericWorkload]',
    ],
    [{ WorkloadWithJob: true, GenericWorkload: true }, undefined],
    [{ NFTablesProxyMode: false }, 'cannot set feature gate NFTablesProxyMode to false, feature is locked to true'],
    // v1.37 locks it, v1.36 does not.
    [{ RelaxedServiceNameValidation: false }, undefined],
  ] as const)
    assert.equal(gateError(gates), error, JSON.stringify(gates))
})
