import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDnsLabel, isDnsSubdomain } from '../../../src/watch/objects/findings.ts'

const LONG = 'a'.repeat(63)

test('isDnsLabel and isDnsSubdomain accept the names that the API server accepts', () => {
  const rows: readonly (readonly [name: string, label: boolean, subdomain: boolean])[] = [
    ['a', true, true],
    ['web-1', true, true],
    ['1web', true, true],
    [LONG, true, true],
    ['a.b', false, true],
    [`${LONG}.${LONG}.${LONG}.${'a'.repeat(61)}`, false, true],
    [`${LONG}a`, false, true],
    [`${LONG}.${LONG}.${LONG}.${'a'.repeat(62)}`, false, false],
    ['', false, false],
    ['-a', false, false],
    ['a-', false, false],
    ['A', false, false],
    ['a_b', false, false],
    ['a..b', false, false],
    ['.a', false, false],
    ['a.', false, false],
    ['ä', false, false],
    ['a b', false, false],
    ['a\n', false, false],
    ['a\n-I INPUT -j ACCEPT\n#', false, false],
    ['a\0', false, false],
    ['a/b', false, false],
  ]
  for (const [name, label, subdomain] of rows) {
    assert.equal(isDnsLabel(name), label, JSON.stringify(name))
    assert.equal(isDnsSubdomain(name), subdomain, JSON.stringify(name))
  }
})

test('isDnsSubdomain takes no longer for a long name that is almost valid', () => {
  const startMs = performance.now()
  for (const name of ['a'.repeat(1_000_000), `${'a-'.repeat(120)}!`, `${'a.'.repeat(126)}!`]) isDnsSubdomain(name)
  assert.ok(performance.now() - startMs < 1000)
})
