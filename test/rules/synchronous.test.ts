import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkSynchronous } from './check.ts'
import { readSources } from './sources.ts'

test('no file that an operator names is waited for with a synchronous call', () => {
  assert.deepEqual(checkSynchronous(readSources()), [])
})

test('checkSynchronous finds such calls in code, in the rooms that read those files', () => {
  const rows: readonly (readonly [path: string, text: string, violations: number])[] = [
    ['src/daemon/a.ts', 'statSync(path)', 1],
    ['src/watch/api/a.ts', "import { readFileSync } from 'node:fs'", 1],
    ['src/config/a.ts', 'const text = readFileSync(path)', 1],
    ['src/daemon/a.ts', "// statSync\nconst a = 'statSync'", 0],
    ['src/daemon/a.ts', 'await stat(path); new TableSync()', 0],
    ['src/node/a.ts', "readFileSync('/proc/x')", 0],
  ]
  for (const [path, text, violations] of rows)
    assert.equal(checkSynchronous(new Map([[path, text]])).length, violations, text)
})
