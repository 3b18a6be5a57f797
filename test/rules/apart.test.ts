/**
 * The daemon apart from the tools: by what its files import. test/kernel/loaded-files.test.ts asks
 * a running daemon.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkApart, isTool, loadedFrom } from './check.ts'
import { ENTRIES, MAX_DAEMON_LINES, TOOLS } from './rules.ts'
import { readSources } from './sources.ts'

const sources = readSources()

test('the daemon imports no tool', () => {
  assert.deepEqual(checkApart(sources), [])
})

test('every tool exists, and the tools load them', () => {
  const loaded = [...loadedFrom(ENTRIES.tools, sources).keys()]
  for (const place of TOOLS)
    assert.ok(
      loaded.some((path) => path === place || path.startsWith(`${place}/`)),
      place,
    )
  assert.ok(loaded.filter(isTool).length > 100)
})

test('the daemon may load fewer lines than the limit, which does not lie far above', (t) => {
  const lines = [...loadedFrom(ENTRIES.daemon, sources).keys()]
    .map((path) => (sources.get(path) ?? '').split('\n').length - 1)
    .reduce((sum, count) => sum + count, 0)
  t.diagnostic(`${lines} lines`)
  assert.ok(lines <= MAX_DAEMON_LINES, `${lines} lines, more than ${MAX_DAEMON_LINES} of test/rules/rules.ts`)
  assert.ok(lines > MAX_DAEMON_LINES - 4000, `${lines} lines: lower MAX_DAEMON_LINES of test/rules/rules.ts`)
})

test('checkApart finds a tool behind other files, and no import of types', () => {
  const files = (start: string, more: Readonly<Record<string, string>> = {}): ReadonlyMap<string, string> =>
    new Map(Object.entries({ [ENTRIES.daemon]: start, 'src/doctor/a.ts': '', 'src/daemon/b.ts': '', ...more }))
  assert.deepEqual(checkApart(files("import type { A } from '../doctor/a.ts'")), [])
  assert.deepEqual(checkApart(files("import { b } from '../daemon/b.ts'")), [])
  const direct = 'src/doctor/a.ts: is for tools, and the daemon loads it: src/start/main.ts -> src/doctor/a.ts'
  assert.deepEqual(checkApart(files("const { a } = await import('../doctor/a.ts')")), [direct])
  assert.deepEqual(
    checkApart(files("import { b } from '../daemon/b.ts'", { 'src/daemon/b.ts': "export * from '../doctor/a.ts'" })),
    [direct.replace('main.ts ->', 'main.ts -> src/daemon/b.ts ->')],
  )
})
