/** Every check with facts that trigger it and facts that do not, and the page that explains them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, test } from 'node:test'
import { parse } from 'yaml'
import { CHECKS, diagnose, exitCodeOf } from '../../src/doctor/diagnose.ts'
import { isUnmanaged } from '../../src/doctor/checks/network.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import { conntrackLimit } from '../../src/node/kernel-settings.ts'
import { ROWS } from './check-rows.ts'
import { node, running } from './healthy-node.ts'
import { type Changes, UNSEEN } from './rows/row.ts'

describe('diagnose', () => {
  it('finds nothing on a node where all is well, and exits with 0', () => {
    const diagnosis = diagnose(node())
    assert.deepEqual(
      diagnosis.checks.filter(({ severity }) => severity !== 'ok').map(({ id, findings }) => [id, findings]),
      [],
    )
    assert.deepEqual([diagnosis.severity, exitCodeOf(diagnosis)], ['ok', 0])
  })

  for (const [id, changes, expected, text] of ROWS)
    it(`${id} is ${expected} with ${JSON.stringify(changes).slice(0, 100)}`, () => {
      const report = diagnose(node(changes)).checks.find((check) => check.id === id)
      assert.equal(report?.severity, expected, JSON.stringify(report, undefined, 1))
      const all = report.findings.flatMap(({ what, effect, remedy }) => [what, effect, ...remedy])
      if (text !== undefined) assert.match(all.join('\n'), text)
    })

  it('is tested with facts that trigger each check and with facts that do not', () => {
    for (const { id } of CHECKS)
      assert.ok(
        ROWS.some(([name, , expected]) => name === id && expected !== 'ok' && expected !== 'unknown'),
        id,
      )
  })

  it('exits with 1 for warnings and with 2 for errors, whatever else there is', () => {
    const exitCode = (changes: Changes): number => exitCodeOf(diagnose(node(changes)))
    assert.equal(exitCode({ netAdmin: false }), 0)
    assert.equal(exitCode({ hiddenProcesses: 'hidepid', rules: UNSEEN }), 0)
    assert.equal(exitCode({ netAdmin: false, ...running('firewalld') }), 1)
    assert.equal(exitCode({ netAdmin: false, ...running('firewalld', 'kube-proxy') }), 2)
  })

  it('shows the worst finding of a check first', () => {
    const old = { ...node().kernel, release: '5.4.0' }
    const ipvs = { value: { virtualServers: 9000, sctpServers: 0, ipv6Servers: 1, tcpTimeoutSeconds: 7400 } }
    const report = diagnose(node({ kernel: old, ipvs })).checks.find(({ id }) => id === 'kernel-version')
    assert.deepEqual(
      report?.findings.map(({ severity }) => severity),
      ['warning', 'note'],
    )
  })
})

test('the limit of flows that conntrack-full tells to configure is written on nodes of every size', () => {
  for (const max of [131_072, 262_144, 1_048_576, 2_097_152]) {
    const report = diagnose(node({ conntrack: { value: { count: max, max } } })).checks.find(
      ({ id }) => id === 'conntrack-full',
    )
    const remedy = report?.findings[0]?.remedy ?? []
    const start = remedy.indexOf('conntrack:')
    const { conntrack } = parse(remedy.slice(start).join('\n')) as {
      readonly conntrack: { readonly min: number; readonly maxPerCore: number }
    } // what our own check prints
    for (const processors of [1, 2, 8, 16, 64, 256])
      assert.equal(conntrackLimit({ ...defaultConfiguration().conntrack, ...conntrack }, processors), 2 * max)
  }
})

test('each check has one section in docs/doctor.md, in the same order, and its link leads there', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/doctor.md'), 'utf8')
  const headings = Array.from(page.matchAll(/^### (.+)$/gm), ([, title = '']) => title)
  assert.deepEqual(
    headings,
    CHECKS.map(({ id }) => id),
  )
  for (const { docs, id } of diagnose(node()).checks) assert.equal(docs, `docs/doctor.md#${id}`)
})

test('isUnmanaged reads lists of devices as NetworkManager does', () => {
  const rows: readonly (readonly [value: string, expected: boolean])[] = [
    ['interface-name:kube-ipvs0', true],
    ['interface-name:=kube-ipvs0', true],
    ['interface-name:cali*;interface-name:kube-*', true],
    ['interface-name:cali*,interface-name:tunl*', false],
    ['type:dummy', true],
    ['*', true],
    ['*,except:interface-name:kube-ipvs0', false],
    ['*,except:type:ethernet', true],
    ['mac:00:22:68:1c:59:b1', false],
    ['', false],
    [`interface-name:${'*a'.repeat(400)}`, false],
  ]
  for (const [value, expected] of rows) assert.equal(isUnmanaged(value), expected, value)
})
