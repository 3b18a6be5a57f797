/**
 * helm/values.schema.json and the table of helm/README.md are what their sources generate;
 * UPDATE_GOLDEN=1 rewrites them.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { parse } from 'yaml'
import { fromJSONSchema } from 'zod'
import { withValuesTable } from '../../dev/helm/readme.ts'
import { validationDataText } from '../../dev/helm/validation-data.ts'
import { describedValues, undescribedPaths } from '../../dev/helm/values-file.ts'
import { valuesSchemaText } from '../../dev/helm/values-schema.ts'
import { VALUES as VALUES_FILES } from './renderings.ts'

const CHART = new URL('../../helm/', import.meta.url)
const read = (name: string): string => readFileSync(new URL(name, CHART), 'utf8')
const VALUES = read('values.yaml')

function isGenerated(name: string, text: string): void {
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(new URL(name, CHART), text)
  assert.equal(read(name), text)
}

test('values.schema.json is made from the table of fields and from values.yaml', () => {
  isGenerated('values.schema.json', valuesSchemaText(describedValues(VALUES)))
})

test('files/validation.json is made from the table of fields and from the messages of the program', () => {
  isGenerated('files/validation.json', validationDataText())
})

test('README.md has the table of values.yaml', () => {
  isGenerated('README.md', withValuesTable(read('README.md'), describedValues(VALUES)))
})

test('every value of values.yaml is described', () => {
  const described = new Set(describedValues(VALUES).map(({ path }) => path))
  assert.ok(described.has('image.tag') && described.has('config'))
  assert.deepEqual(undescribedPaths(parse(VALUES), described), [])
})

test('describedValues reads a comment of several lines, and no comment that lacks the mark', () => {
  const text = 'a:\n  # -- First.\n  # Second.\n  b: 1\n  # not a description\n  c: 2\n# -- Of d.\nd: {e: 3}\n'
  assert.deepEqual(describedValues(text), [
    { path: 'a.b', default: 1, description: 'First. Second.' },
    { path: 'd', default: { e: 3 }, description: 'Of d.' },
  ])
  assert.deepEqual(undescribedPaths(parse(text), new Set(['a.b', 'd'])), ['a.c'])
})

test('values.schema.json accepts the values files and refuses unknown names and wrong types', () => {
  const schema = fromJSONSchema(JSON.parse(read('values.schema.json')))
  for (const [name, values] of VALUES_FILES) assert.deepEqual(schema.safeParse(values).error?.issues ?? [], [], name)
  const wrong = [
    { imag: {} },
    { image: { tag: 1 } },
    { image: { digest: 'latest' } },
    { apiServer: { port: 70_000 } },
    { config: { ipvs: { schedular: 'rr' } } },
    { config: { ipvs: { syncPeriod: 30 } } },
    { config: { oomScoreAdj: '5' } },
    { config: { featureGates: { A: 'true' } } },
    { config: { nodePortAddresses: 'primary' } },
    { extraArgs: 'x' },
  ]
  for (const values of wrong) assert.equal(schema.safeParse(values).success, false, JSON.stringify(values))
})

test('the chart has the version of the program as its appVersion', () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  assert.equal(parse(read('Chart.yaml')).appVersion, version)
})
