/**
 * What the documents for operators quote exists: lines of the log, metrics, fields of the
 * configuration, and tests as evidence.
 */
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { loadConfiguration } from '../../src/config/load.ts'
import { API_VERSION, KIND } from '../../src/config/schema.ts'
import { STOP_DAEMON_SET } from '../../src/doctor/checks/proxies.ts'
import { modulesAtBoot } from '../../src/node/needs.ts'
import { MODULES_FILE } from '../../src/node/module-remedy.ts'
import { FIELD_PATHS } from '../../src/config/values.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const PAGES = ['README.md', 'SECURITY.md', ...globSync(['docs/*.md', 'helm/**/*.md'], { cwd: ROOT }).sort()]
const SOURCE = globSync('src/**/*.ts', { cwd: ROOT }).map(read).join('\n')

/** Text in backticks that begins with a capital letter and has several words: a line of our log. */
const LOG_LINE = /`([A-Z][a-z]*(?: [^`…]+)+)`/g
/** Lines of other programs. */
const LINES_OF_OTHERS: readonly string[] = ['Another app is currently holding the xtables lock']
const METRIC = /\bkube(?:ipvs|proxy)_[a-z_]*[a-z]/g
/** A field below a section that a KubeProxyConfiguration has: `ipvs.strictARP`. */
const FIELD = /`((?:ipvs|iptables|conntrack|kubeIPVS|clientConnection|detectLocal|logging)\.[\w.]+)\b/g
/** A test as evidence: its file and a part of its name. */
const EVIDENCE = /`(test\/[^`]+\.test\.ts)` "([^"]+)"/g

function unknownLines(text: string): string[] {
  return Array.from(text.matchAll(LOG_LINE), ([, line = '']) => line).filter(
    (line) => !SOURCE.includes(line) && !LINES_OF_OTHERS.includes(line),
  )
}

function unknownMetrics(text: string): string[] {
  return (text.match(METRIC) ?? []).filter(
    (name) => !new RegExp(`\\b${name.replace(/_(bucket|sum|count)$/, '')}`).test(SOURCE),
  )
}

function unknownFields(text: string): string[] {
  const known: readonly string[] = FIELD_PATHS
  return Array.from(text.matchAll(FIELD), ([, path = '']) => path).filter(
    (path) => !known.includes(path) && !known.some((field) => field.startsWith(`${path}.`)),
  )
}

/** Tests that are named as evidence and do not exist. */
function missingEvidence(text: string): string[] {
  return Array.from(text.replaceAll(/\s+/g, ' ').matchAll(EVIDENCE), ([, path = '', name = '']) =>
    existsSync(join(ROOT, path)) && read(path).includes(name) ? undefined : `${path}: ${name}`,
  ).filter((missing) => missing !== undefined)
}

for (const page of PAGES)
  test(`${page} quotes lines of the log, metrics, fields and tests that exist`, () => {
    const text = read(page)
    assert.deepEqual(unknownLines(text), [])
    assert.deepEqual(unknownMetrics(text), [])
    assert.deepEqual(unknownFields(text), [])
    assert.deepEqual(missingEvidence(text), [])
  })

test('the program accepts each configuration in the documents', () => {
  let count = 0
  for (const page of PAGES)
    for (const [, yaml = ''] of read(page).matchAll(/^```yaml\n([^]*?)^```/gm)) {
      const { kind = KIND, config = parse(yaml) } = parse(yaml)
      // The others are manifests for kubectl.
      if (kind !== KIND) continue
      const document = JSON.stringify({ apiVersion: API_VERSION, kind: KIND, ...config })
      const result = loadConfiguration(document, page)
      assert.ok('configuration' in result, `${page}: ${'errors' in result ? result.errors[0]?.message : ''}`)
      assert.deepEqual(result.warnings, [], page)
      count++
    }
  assert.ok(count >= 3)
})

test('the modules of the quick start are those that ipvs mode needs at boot', () => {
  const page = read('docs/quick-start.md')
  assert.ok(page.includes(`MODULES='${modulesAtBoot('rr').join(' ')}'`))
  assert.ok(page.includes(`> ${MODULES_FILE}\n`))
})

test('the runbooks of the rendered alerts lead to sections of docs/alerts.md', () => {
  const sections = Array.from(read('docs/alerts.md').matchAll(/^## (.+)$/gm), ([, title = '']) => title.toLowerCase())
  const rendered = read('test/helm/golden/everything.yaml')
  const runbooks = Array.from(rendered.matchAll(/runbook_url: \S+?\/main\/(\S+)#(\S+)/g))
  assert.ok(runbooks.length > 10)
  for (const [, page, anchor = ''] of runbooks) {
    assert.equal(page, 'docs/alerts.md')
    assert.ok(sections.includes(anchor), anchor)
  }
})

test('each row about tenants and other parties in docs/security-model.md names a test', () => {
  const text = read('docs/security-model.md')
  const sections = ['What a tenant can do', 'What a tenant cannot do', 'Other parties']
  for (const title of sections) {
    const section = text.split(`\n## ${title}\n`)[1]?.split('\n## ')[0] ?? ''
    const rows = section.split('\n').filter((line) => /^\| (?!what |---)/.test(line))
    assert.ok(rows.length > 4, title)
    for (const row of rows) assert.match(row, new RegExp(`${EVIDENCE.source} +\\|$`))
  }
})

test('the checks of quotations find each kind of mistake', () => {
  assert.deepEqual(unknownLines('`Caches are synced`, `Caches are sunk`, `KUBE-SERVICES`, `Local`'), [
    'Caches are sunk',
  ])
  assert.deepEqual(
    unknownMetrics('kubeipvs_mode, kubeipvs_mood, kubeproxy_network_programming_duration_seconds_bucket'),
    ['kubeipvs_mood'],
  )
  assert.deepEqual(unknownFields('`ipvs.strictARP: true` and `ipvs.strictArp`'), ['ipvs.strictArp'])
  const evidence =
    '`test/sync/loop.test.ts` "never spins" `test/sync/loop.test.ts` "never sleeps" `test/sync/lop.test.ts` "x"'
  assert.deepEqual(missingEvidence(evidence), ['test/sync/loop.test.ts: never sleeps', 'test/sync/lop.test.ts: x'])
})

test('the documents and doctor bind kube-proxy to one label, and the way back removes that one', () => {
  const label = 'kube-ipvs/proxy'
  /** The node selectors of patches, as text. */
  const selectorsIn = (text: string): string[] =>
    Array.from(text.matchAll(/"nodeSelector":(\{[^}]*\})/g), ([, selector = '']) => selector)
  const off = `{"${label}":"kube-proxy"}`
  assert.deepEqual(selectorsIn(read('docs/quick-start.md')), [off])
  assert.deepEqual(selectorsIn(STOP_DAEMON_SET), [off])
  assert.deepEqual(selectorsIn(read('docs/migration.md')), [off, `{"${label}":null}`])
  for (const page of PAGES)
    for (const [line] of read(page).matchAll(/^.*kubectl label nodes? .*$/gm))
      assert.match(line, new RegExp(` ${label}(=kube-(proxy|ipvs)|-)`), page)
})
