/** The table of fields itself: every rule is checked somewhere, and flags are complete. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hasNoEffect } from '../../src/config/changes.ts'
import type { Rule } from '../../src/config/field.ts'
import { checkConfiguration } from '../../src/config/load.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import type { FieldPath } from '../../src/config/types.ts'
import { validateConfiguration } from '../../src/config/validate.ts'
import { FIELD_PATHS, fieldAt, withValues } from '../../src/config/values.ts'

/** A value that breaks a rule. */
function brokenValue(rule: Rule): unknown {
  switch (rule) {
    case 'notNegative':
      return -1
    case 'positive':
      return 0
    case 'address':
    case 'addressPort':
    case 'socketPath':
      return 'x'
    case 'cidrs':
      return ['x']
    default:
      return rule[1] + 1
  }
}

/** A mode in which the rule of a field is checked; that of nftables is kube-proxy's. */
function modeOf(path: FieldPath): string {
  return path.startsWith('nftables.') ? 'nftables' : path.startsWith('iptables.') ? 'iptables' : 'ipvs'
}

test('validateConfiguration checks the rule of every field', () => {
  const periods = { 'ipvs.syncPeriod': 30_000, 'iptables.syncPeriod': 30_000, 'nftables.syncPeriod': 30_000 }
  for (const path of FIELD_PATHS) {
    const { rule } = fieldAt(path)
    if (rule === undefined) continue
    const good = withValues(defaultConfiguration(), { ...periods, mode: modeOf(path) })
    const broken = withValues(good, { [path]: brokenValue(rule) })
    assert.notDeepEqual(validateConfiguration(broken), validateConfiguration(good), path)
  }
})

test('checkConfiguration refuses other words than those of a field', () => {
  for (const path of FIELD_PATHS)
    if (fieldAt(path).words !== undefined)
      assert.ok('errors' in checkConfiguration(withValues(defaultConfiguration(), { [path]: 'x' }), 'test'), path)
})

test('FIELDS has the flags without effect in the group for them', () => {
  for (const path of FIELD_PATHS) {
    const { flag } = fieldAt(path)
    if (flag !== undefined) assert.equal(flag.group === 'unused', hasNoEffect(path), path)
  }
})

test('FIELDS has a flag that counts with a file, and no value written by default, for each field of kubeIPVS', () => {
  for (const path of FIELD_PATHS)
    if (path.startsWith('kubeIPVS.')) {
      const { flag, written } = fieldAt(path)
      assert.deepEqual([flag?.group, flag?.appliesWithFile, written], ['own', true, 'unlessDefault'], path)
    }
})
