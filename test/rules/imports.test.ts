import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkDirection, checkImports, checkPurity, findBarrels, findCycles, importsOf } from './check.ts'
import { readAllSources, readSources } from './sources.ts'

const sources = readSources()

test('the sources import only what they may', () => {
  assert.ok(sources.size > 30)
  assert.deepEqual(checkImports(sources), [])
})

test('imports go from test to dev to the program, and never back', () => {
  const all = readAllSources()
  for (const path of ['dev/bootstrap.mjs', 'dev/bench.ts', 'test/oracle/main.ts']) assert.ok(all.has(path), path)
  assert.deepEqual(checkDirection(all), [])
})

test('pure files are pure', () => assert.deepEqual(checkPurity(sources), []))
test('program, tools and tests have no import cycles', () => assert.deepEqual(findCycles(readAllSources()), []))
test('the sources have no barrel files', () => assert.deepEqual(findBarrels(sources), []))

const files = (entries: Readonly<Record<string, string>>): ReadonlyMap<string, string> =>
  new Map(Object.entries(entries))

test('importsOf finds every form of import', () => {
  const text = [
    "import a from 'a'",
    "import type { B } from '../values/b.ts'",
    'import {',
    '  c, // from "nowhere"',
    '  type D,',
    "} from './c.ts'",
    "import * as e from '@scope/e/deep.js'",
    "import 'node:f'",
    "export * from './g.ts'",
    "const h = await import('h/x')",
    "const i = require('i')",
    "const q = createRequire(import.meta.url)('q')",
    "// import j from 'j'",
    "/* import k from 'k' */ const l = \"import m from 'm'\"",
    "export const from = 'n'",
    'export { o }',
    "const p = 'p'",
  ].join('\n')
  assert.deepEqual(importsOf('src/x/y.ts', text).sort(), [
    '@scope/e',
    'a',
    'h',
    'i',
    'node:f',
    'q',
    'src/values/b.ts',
    'src/x/c.ts',
    'src/x/g.ts',
  ])
})

test('checkImports finds each kind of violation', () => {
  const rows: readonly (readonly [path: string, text: string, expected: readonly string[]])[] = [
    ['src/service/a.ts', "import { x } from '../values/x.ts'", []],
    ['src/service/a.ts', "import { x } from '../ipvs/text.ts'", ['src/service/a.ts: may not import src/ipvs/text.ts']],
    ['src/ipvs/a.ts', "import type { x } from '../watch/x.ts'", ['src/ipvs/a.ts: may not import src/watch/x.ts']],
    ['src/cli/a.ts', "import { x } from '../daemon/x.ts'", []],
    ['src/cli/a.ts', "import { x } from '../watch/x.ts'", ['src/cli/a.ts: may not import src/watch/x.ts']],
    [
      'src/values/a.ts',
      "import { x } from './b.ts'",
      ['src/values/a.ts: imports src/values/b.ts, which does not exist'],
    ],
    ['src/new/a.ts', "import { x } from '../values/x.ts'", ['src/new/a.ts: its folder has no line in MAY_IMPORT']],
    ['src/node/a.ts', "import koffi from 'koffi'", ['src/node/a.ts: only native may import koffi']],
    ['src/serve/other.ts', "import w from 'winston'", ['src/serve/other.ts: only src/serve/log.ts may import winston']],
    ['src/serve/log.ts', "const w = await import('winston')", []],
    [
      'src/cli/a.ts',
      "import { spawn } from 'node:child_process'",
      ['src/cli/a.ts: only src/node may import node:child_process'],
    ],
    ['src/modes/ipvs/a.ts', "import { x } from '../x.ts'", []],
    [
      'src/modes/ipvs/a.ts',
      "import { x } from '../iptables/x.ts'",
      ['src/modes/ipvs/a.ts: may not import src/modes/iptables/x.ts'],
    ],
    [
      'src/modes/a.ts',
      "import { x } from './iptables/x.ts'",
      ['src/modes/a.ts: may not import src/modes/iptables/x.ts'],
    ],
    ['src/cli/a.ts', "import x from 'left-pad'", ['src/cli/a.ts: left-pad has no line in PACKAGE_USERS']],
    ['src/config/file.ts', "import { readFile } from 'node:fs/promises'", []],
  ]
  const others = {
    'src/values/x.ts': '',
    'src/ipvs/text.ts': '',
    'src/ipvs/table.ts': '',
    'src/watch/x.ts': '',
    'src/daemon/x.ts': '',
    'src/modes/x.ts': '',
    'src/modes/iptables/x.ts': '',
  }
  for (const [path, text, expected] of rows)
    assert.deepEqual(checkImports(files({ ...others, [path]: text })), expected, text)
})

test('checkDirection finds imports of tests by tools, and of both by the program', () => {
  const rows: readonly (readonly [path: string, imported: string, isAllowed: boolean])[] = [
    ['test/support/a.ts', 'dev/b.ts', true],
    ['test/support/a.ts', 'src/values/b.ts', true],
    ['test/support/a.ts', 'native/b.ts', true],
    ['dev/a.mjs', 'dev/b.mjs', true],
    ['dev/bench/a.ts', 'src/values/b.ts', true],
    ['dev/bench/a.ts', 'test/support/b.ts', false],
    ['src/cli/a.ts', 'dev/b.ts', false],
    ['native/a.ts', 'test/support/b.ts', false],
  ]
  for (const [path, imported, isAllowed] of rows) {
    const ups = '../'.repeat(path.split('/').length - 1)
    const found = checkDirection(files({ [path]: `import { b } from '${ups}${imported}'` }))
    assert.deepEqual(found, isAllowed ? [] : [`${path}: may not import ${imported}`])
  }
})

const IMPURE_HEADER = '/**\n * What it is for.\n * @impure\n */\n'

test('checkPurity finds clock, process, chance and waiting in code, wherever no comment and no room allows them', () => {
  for (const code of [
    'async () => 1',
    'Date.now()',
    'new Date()',
    'process.env',
    'Math.random()',
    'setTimeout(f, 1)',
    'performance.now()',
  ]) {
    const text = `const x = ${code}`
    const count = (path: string, content: string): number => checkPurity(files({ [path]: content })).length
    assert.equal(count('src/new-room/a.ts', text), 1, code)
    assert.equal(count('src/new-room/a.ts', IMPURE_HEADER + text), 0, code)
    assert.equal(count('src/cli/a.ts', text), 0, code)
    assert.equal(count('src/service/a.ts', text), 1, code)
    assert.equal(count('src/service/a.ts', IMPURE_HEADER + text), 1, code)
    assert.equal(count('src/service/a.ts', `// ${code}\nconst x = "${code}" // ${code}`), 0, code)
  }
  assert.deepEqual(checkPurity(files({ 'src/service/a.ts': 'new Date(atMs); theProcess.x' })), [])
})

test('checkPurity finds imports of what is not pure', () => {
  const others = { 'src/x/pure.ts': '', 'src/x/impure.ts': `${IMPURE_HEADER}await 1`, 'src/daemon/b.ts': '' }
  const rows: readonly (readonly [specifier: string, imported: string | undefined])[] = [
    ['./pure.ts', undefined],
    ['./impure.ts', 'src/x/impure.ts'],
    ['../daemon/b.ts', 'src/daemon/b.ts'],
    ['node:fs', 'node:fs'],
    ['node:util', undefined],
    ['zod', undefined],
  ]
  for (const [specifier, imported] of rows) {
    const found = checkPurity(files({ ...others, 'src/x/a.ts': `import x from '${specifier}'` }))
    assert.equal(found.length, imported === undefined ? 0 : 1, specifier)
    if (imported !== undefined)
      assert.match(found[0] ?? '', new RegExp(`^src/x/a.ts: is pure and imports ${imported} `))
  }
})

test('checkPurity finds files that say @impure and are pure', () => {
  assert.deepEqual(checkPurity(files({ 'src/x/a.ts': `${IMPURE_HEADER}const a = 1` })), [
    'src/x/a.ts: says @impure and is pure',
  ])
  assert.deepEqual(checkPurity(files({ 'src/x/a.ts': 'const a = 1\n/** @impure */\nconst b = 2' })), [])
})

test('findCycles finds cycles and findBarrels files that only re-export', () => {
  const sources = files({
    'src/a/a.ts': "import { b } from './b.ts'\nexport const a = b",
    'src/a/b.ts': "import type { c } from './c.ts'\nexport const b = 1",
    'src/a/c.ts': "/** c */\nexport { a } from './a.ts'\nexport type * from './b.ts'\n",
    'src/a/d.ts': "import { a } from './a.ts'\nexport const d = a",
  })
  assert.deepEqual(findCycles(sources), [
    'cycle: src/a/a.ts -> src/a/b.ts -> src/a/c.ts -> src/a/a.ts',
    'cycle: src/a/b.ts -> src/a/c.ts -> src/a/b.ts',
  ])
  assert.deepEqual(findBarrels(sources), ['src/a/c.ts: only re-exports; import from where things are'])
})
