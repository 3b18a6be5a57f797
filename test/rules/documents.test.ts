/** The documents name only what is there: files, headings, npm scripts, and in ARCHITECTURE.md names of the code. */
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { readAllSources } from './sources.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const DOCUMENTS = globSync(['*.md', 'docs/*.md', 'dev/**/*.md', 'test/**/*.md'], { cwd: ROOT }).sort()
const SCRIPTS: Readonly<Record<string, string>> = JSON.parse(read('package.json')).scripts

/** Paths from the root of the repository, where a folder that this document writes about is named in front. */
const PATH = /(?<![\w./@-])(?:src|native|test|dev|docs|bin|examples|\.ci)\/[\w./*{},-]*[\w/*}]/g
const LINK = /\]\(([^)\s]+)\)/g
const SCRIPT = /\bnpm run ([\w:]+)/g
/** `SyncLoop.apply`, `minSyncPeriodMs()`: text in backticks that is a name and nothing else. */
const NAME = /`([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)(?:\(\))?`/g
const PICTURE = /^```[^]*?^```/gm
const CAPITAL_INSIDE = /\b[A-Za-z]*[a-z][A-Z]\w*\b/g

/** Paths of this text that do not exist. `*` stands for anything, `{a,b}` for either. */
function missingPaths(text: string): string[] {
  return (text.match(PATH) ?? []).filter((path) =>
    /[*{]/.test(path) ? globSync(path, { cwd: ROOT }).length === 0 : !existsSync(join(ROOT, path)),
  )
}

/** Links of this document to a file or heading that does not exist. */
function brokenLinks(document: string, text: string): string[] {
  return [...text.matchAll(LINK)].flatMap(([, target = '']) => {
    if (/^[a-z]+:/.test(target)) return []
    const [file = '', heading] = target.split('#', 2)
    const path = file === '' ? document : join(dirname(document), file)
    if (!existsSync(join(ROOT, path))) return [target]
    return heading === undefined || headingsOf(read(path)).includes(heading) ? [] : [target]
  })
}

/** The headings of a text as GitHub writes them into links. */
function headingsOf(text: string): string[] {
  const titles = Array.from(text.matchAll(/^#+ (.+)$/gm), ([, title = '']) => title)
  return titles.map((title) =>
    title
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )
}

/** Names in backticks, and names with a capital inside in pictures, of which a part is no word of the code. */
function unknownNames(text: string, words: ReadonlySet<string>): string[] {
  const pictures = Array.from(text.matchAll(PICTURE), ([picture]) => picture.replace(PATH, ''))
  const names = [
    ...Array.from(text.replace(PICTURE, '').matchAll(NAME), ([, name = '']) => name),
    ...pictures.flatMap((picture) => picture.match(CAPITAL_INSIDE) ?? []),
  ]
  return names.filter((name) => !name.split('.').every((part) => words.has(part)))
}

test('the documents name only files that exist', () => {
  assert.ok(DOCUMENTS.includes('README.md') && DOCUMENTS.includes('docs/metrics.md'))
  for (const document of DOCUMENTS) assert.deepEqual(missingPaths(read(document)), [], document)
})

test('the links of the documents lead to files and headings that exist', () => {
  for (const document of DOCUMENTS) assert.deepEqual(brokenLinks(document, read(document)), [], document)
})

test('the documents name only npm scripts that exist', () => {
  for (const document of DOCUMENTS)
    for (const [, script = ''] of read(document).matchAll(SCRIPT))
      assert.ok(script in SCRIPTS, `${document}: ${script}`)
})

test('ARCHITECTURE.md names only what the code has', () => {
  const words = new Set<string>()
  for (const [, text] of readAllSources()) for (const word of text.match(/[\w$]+/g) ?? []) words.add(word)
  assert.deepEqual(unknownNames(read('ARCHITECTURE.md'), words), [])
})

test('the checks of documents find each kind of mistake', () => {
  const paths = 'see `src/main.ts`, src/nowhere.ts, (docs/*.md), test/*/nowhere.ts and https://example.com/src/x.ts'
  assert.deepEqual(missingPaths(paths), ['src/nowhere.ts', 'test/*/nowhere.ts'])
  const links =
    '[a](README.md) [b](docs/nowhere.md) [c](README.md#nowhere) [d](https://example.com) [e](#here)\n## Here\n'
  assert.deepEqual(brokenLinks('README.md', links), ['docs/nowhere.md', 'README.md#nowhere', '#here'])
  assert.deepEqual(headingsOf('# One, two\n## `three` it-is\n'), ['one-two', 'three-it-is'])
  const names = 'the `Loop.apply` of `Loop`, `Loop.gone()`, `npm test`\n```\n  Loop ──► goneToo src/main.ts\n```\n'
  assert.deepEqual(unknownNames(names, new Set(['Loop', 'apply'])), ['Loop.gone', 'goneToo'])
})
