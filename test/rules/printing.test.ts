import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkPrinting } from './check.ts'
import { PRINTERS } from './rules.ts'
import { readSources } from './sources.ts'

const sources = readSources()

test('nothing goes around the places that escape what they print', () => {
  assert.deepEqual(checkPrinting(sources), [])
})

test('the places that may print exist, and print', () => {
  for (const { what, pattern, places } of PRINTERS)
    for (const place of places) assert.match(sources.get(place) ?? '', pattern, `${place}: ${what}`)
})

test('checkPrinting finds each way to print, in code and not in texts and comments', () => {
  const rows: readonly (readonly [path: string, text: string, violations: number])[] = [
    ['src/cli/a.ts', "process.stdout.write('x')", 2],
    ['src/cli/a.ts', 'const { stderr } = process', 1],
    ['src/daemon/a.ts', 'process.stderr.write(text)', 1],
    ['src/daemon/a.ts', 'console.log(text)', 1],
    ['native/a.ts', 'console.error(text)', 1],
    ['src/doctor/a.ts', 'writeSync(1, text)', 1],
    ['src/main.ts', 'output.write(text)', 1],
    ['src/cli/explain/a.ts', 'JSON.stringify(value)', 1],
    ['src/config/a.ts', 'JSON.stringify(value)', 0],
    ['src/watch/a.ts', 'request.write(body)', 0],
    ['src/cli/a.ts', "// console.log(x)\nconst a = 'process.stdout.write(1)'", 0],
    ['src/start/output.ts', 'process.stdout.write(text)', 0],
  ]
  for (const [path, text, violations] of rows)
    assert.equal(checkPrinting(new Map([[path, text]])).length, violations, text)
})
