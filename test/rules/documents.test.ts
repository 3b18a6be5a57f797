/**
 * The documents name only what is there: files, headings, npm scripts, commands with their flags,
 * and those about the code names of the code.
 */
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { parseCommandLine } from '../../src/start/command-line.ts'
import { helpFor } from '../../dev/help.mjs'
import { FLAGS } from '../../src/start/flags.ts'
import { readAllSources } from './sources.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const DOCUMENTS = globSync(['*.md', 'docs/**/*.md', 'helm/**/*.md', 'dev/**/*.md', 'test/**/*.md'], {
  cwd: ROOT,
}).sort()
const SCRIPTS: Readonly<Record<string, string>> = JSON.parse(read('package.json')).scripts

/** Paths from the root of the repository, where a folder that this document writes about is named in front. */
const PATH = /(?<![\w./@-])(?:src|native|test|dev|docs|bin|examples|\.ci)\/[\w./*{},-]*[\w/*}]/g
const LINK = /\]\(([^)\s]+)\)/g
/** Code of a document: blocks between fences, indented lines, and text in backticks. */
const CODE = /^```[^]*?^```|^ {4}.*$|`[^`\n]+`/gm
/** A command of ours: at the start of a line of code, after sudo, or after `kubectl exec … --`. */
const COMMAND = /(?:^[`\s]*|\bsudo | -- )(?:bin\/)?kube-ipvs(?:\.mjs)? +([^`\n]+)/gm
/** A flag in backticks: `--once`, `--output json`. */
const FLAG = /`--([a-z][\w-]*)/g
/** Flags of other programs that the documents name. */
const FLAGS_OF_OTHERS: readonly string[] = [
  'skip-phases',
  'repeats',
  'idle-seconds',
  'run-service-proxy',
  'random-fully',
]
const SCRIPT = /\bnpm run ([\w:]+)/g
/** `SyncLoop.apply`, `minSyncPeriodMs()`: text in backticks that is a name and nothing else. */
const NAME = /`([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)(?:\(\))?`/g
const PICTURE = /^```[^]*?^```/gm
const CAPITAL_INSIDE = /\b[A-Za-z]*[a-z][A-Z]\w*\b/g

/** Options of the bench in the commands of this text. */
const benchOptionsIn = (text: string): string[] =>
  (text.match(/npm run bench -- [^`\n#]+/g) ?? []).flatMap((command) =>
    Array.from(command.matchAll(/ --([a-z][\w-]*)/g), ([, option = '']) => option),
  )

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

/** The arguments of our commands in the code of a text, without what explains them. */
function commandsIn(text: string): string[] {
  return (text.match(CODE) ?? []).flatMap((code) =>
    Array.from(code.matchAll(COMMAND), ([, line = '']) => line.replace(/(?:\s{2,}|\s#\s).*$/, '').trim()),
  )
}

/** What our grammar says about the commands of a text; placeholders in capitals are values like others. */
function wrongCommands(text: string): string[] {
  return commandsIn(text).flatMap((line) => {
    const parsed = parseCommandLine(line.split(/\s+/).map((word) => word.replaceAll(/["']/g, '')))
    return 'error' in parsed ? [`kube-ipvs ${line}: ${parsed.error.message}`] : []
  })
}

/** Flags in backticks that neither the program nor one of the others has. */
function unknownFlags(text: string): string[] {
  const known = new Set([...Object.values(FLAGS).map(({ name }) => name), ...FLAGS_OF_OTHERS])
  return Array.from(text.matchAll(FLAG), ([, name = '']) => name).filter((name) => !known.has(name))
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

test('the commands in the documents have the flags that the program has', () => {
  const commands = DOCUMENTS.flatMap((document) => commandsIn(read(document)))
  assert.ok(commands.length >= 10)
  for (const document of DOCUMENTS) assert.deepEqual(wrongCommands(read(document)), [], document)
})

test('the documents for users name only flags that exist', () => {
  const forUsers = DOCUMENTS.filter((path) =>
    /^(docs\/(?!performance|dev\/)|helm\/)|^(README|SECURITY)\.md$/.test(path),
  )
  for (const document of forUsers) assert.deepEqual(unknownFlags(read(document)), [], document)
})

test('the documents name only options of the bench that its help lists', () => {
  const options = DOCUMENTS.flatMap((document) => benchOptionsIn(read(document)))
  assert.ok(options.includes('hostile') && options.includes('handover'))
  assert.deepEqual(
    options.filter((option) => option !== 'help' && !helpFor['bench']?.includes(`--${option}`)),
    [],
  )
  assert.deepEqual(
    benchOptionsIn('`npm run bench -- --own-cost` and `KUBE_PROXY=x npm run bench -- --mode ipvs --so on`'),
    ['own-cost', 'mode', 'so'],
  )
})

test('every page in docs has a link in docs/README.md', () => {
  const index = read('docs/README.md')
  for (const path of globSync(['docs/*.md', 'docs/*/README.md'], { cwd: ROOT }))
    if (path !== 'docs/README.md') assert.ok(index.includes(`](${path.slice('docs/'.length)})`), path)
})

test('the documents name only npm scripts that exist', () => {
  for (const document of DOCUMENTS)
    for (const [, script = ''] of read(document).matchAll(SCRIPT))
      assert.ok(script in SCRIPTS, `${document}: ${script}`)
})

/** The documents about the code. The recipe for the next release names things of Kubernetes. */
const ABOUT_THE_CODE = [
  'ARCHITECTURE.md',
  ...['daemon', 'decisions', 'glossary', 'recipes', 'rules', 'tests'].map((name) => `docs/dev/${name}.md`),
]

test('the documents about the code name only what the code has', () => {
  const words = new Set<string>()
  for (const [, text] of readAllSources()) for (const word of text.match(/[\w$]+/g) ?? []) words.add(word)
  for (const document of ABOUT_THE_CODE) assert.deepEqual(unknownNames(read(document), words), [], document)
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
  const commands = [
    'Type `kube-ipvs status --output json`; `helm install kube-ipvs ./helm --wait` is another program.',
    '    kube-ipvs --once --manifests DIR        one pass, not --twice',
    '```sh',
    'kubectl -n kube-system exec ds/kube-ipvs -- kube-ipvs stauts',
    'sudo kube-ipvs diff --dry-run # tries',
    '```',
    'kube-ipvs is a program, and kube-ipvs refuses.',
  ]
  assert.deepEqual(wrongCommands(commands.join('\n')), [
    'kube-ipvs stauts: "kube-ipvs" does not take any arguments, got ["stauts"]',
    'kube-ipvs diff --dry-run: --dry-run is a flag of kube-ipvs cleanup, not of kube-ipvs diff',
  ])
  assert.deepEqual(unknownFlags('`--once`, `--onec`, `--output json`, `kubectl --now`'), ['onec'])
})
