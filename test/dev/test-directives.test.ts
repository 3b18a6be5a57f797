/** What the first comment of a test file says to the runner. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { hasDirective, isForBareGuest, runsOf } from '../../dev/testing/directives.ts'

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-test-'))
after(() => rmSync(folder, { recursive: true }))
const FILES = {
  'plain.test.ts': "/** Of a bare guest. */\nit('@bare', () => {}) /* @also-bare */",
  'alone.test.ts': '/**\n * Memory.\n * @alone It is measured.\n */',
  'bare.test.ts': '/**\n * Without xtables.\n * @bare\n */',
  'both.test.ts': '/** Traffic. @also-bare */',
}
for (const [file, text] of Object.entries(FILES)) writeFileSync(join(folder, file), text)

describe('directives of a test file', () => {
  it('are words of its first comment', () => {
    const alone = Object.keys(FILES).filter((file) => hasDirective(file, '@alone', folder))
    assert.deepEqual(alone, ['alone.test.ts'])
  })
  it('name the guests that it runs in', () => {
    const runs = Object.keys(FILES).flatMap((file) => runsOf(file, folder))
    assert.deepEqual(runs, ['plain.test.ts', 'alone.test.ts', 'bare.test.ts', 'both.test.ts', 'both.test.ts?bare'])
    const bare = runs.filter((file) => isForBareGuest(file, folder))
    assert.deepEqual(bare, ['bare.test.ts', 'both.test.ts?bare'])
  })
  it('of a part of a file are those of the file', () => {
    assert.ok(hasDirective('alone.test.ts?part=1', '@alone', folder))
  })
})
