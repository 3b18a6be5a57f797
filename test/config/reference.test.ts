/** docs/configuration.md is what the table of fields generates; UPDATE_GOLDEN=1 rewrites it. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { configurationReference } from '../../dev/configuration-reference.ts'
import { FIELD_PATHS, fieldAt } from '../../src/config/values.ts'

const FILE = new URL('../../docs/configuration.md', import.meta.url)

test('configurationReference is the content of docs/configuration.md', () => {
  const text = configurationReference()
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(FILE, text)
  assert.equal(readFileSync(FILE, 'utf8'), text)
})

test('configurationReference has one row for each field, with its flag', () => {
  const rows = configurationReference().split('\n')
  for (const path of FIELD_PATHS) {
    const [row = '', ...others] = rows.filter((line) => line.startsWith(`| \`${path}\` `))
    assert.ok(row !== '' && others.length === 0, path)
    const { flag } = fieldAt(path)
    if (flag !== undefined) assert.ok(row.includes(`-${flag.name}\``), path)
  }
})
