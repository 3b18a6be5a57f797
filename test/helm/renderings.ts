/**
 * The renderings that the tests of the chart judge. Real helm made the files in test/helm/golden,
 * so that the tests also run without helm; a digest of the chart's inputs shows when they are out
 * of date. UPDATE_GOLDEN=1 with helm rewrites them.
 */
import { createHash } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
import { CHART, LEAST } from './helm.ts'
import type { KubernetesObject } from './openapi.ts'

const GOLDEN = join(import.meta.dirname, 'golden')

/** Where the digest of the inputs is. */
export const DIGEST_FILE = join(GOLDEN, 'inputs.sha256')

/** Values by the name of the rendering: the least, all values files of the chart, and everything at once. */
export const VALUES: ReadonlyMap<string, object> = new Map([
  ['least', LEAST],
  ...globSync(join(CHART, 'values/*.yaml'))
    .sort()
    .map((file) => [basename(file, '.yaml'), readValues(file)] as const),
  ['everything', readValues(join(import.meta.dirname, 'everything.yaml'))],
])

function readValues(file: string): object {
  return parse(readFileSync(file, 'utf8'))
}

/** The values in a document of the repository: its blocks of YAML that begin with `# values.yaml`. */
export function valuesIn(page: string): readonly object[] {
  const text = readFileSync(join(import.meta.dirname, '../..', page), 'utf8')
  return Array.from(text.matchAll(/^```yaml\n# values\.yaml\n([^]*?)^```/gm), ([, yaml = '']) => parse(yaml))
}

export function goldenFile(name: string): string {
  return join(GOLDEN, `${name}.yaml`)
}

/** The recorded rendering. */
export function goldenText(name: string): string {
  return readFileSync(goldenFile(name), 'utf8')
}

/** The objects of a rendering, read as Kubernetes reads YAML. */
export function objectsIn(text: string): readonly KubernetesObject[] {
  const documents = parseAllDocuments(text, { version: '1.1' })
  const found: readonly KubernetesObject[] = Array.isArray(documents)
    ? documents.map((document) => document.toJS())
    : []
  return found.filter((object) => object !== null).flatMap((object) => itemsOf(object))
}

function itemsOf(object: KubernetesObject): readonly KubernetesObject[] {
  // A List that helm takes apart holds objects of the same form.
  const items = object['items'] as readonly KubernetesObject[] | undefined
  return object.kind === 'List' && items !== undefined ? items : [object]
}

/**
 * A digest of what a rendering depends on. The facts of the checks are left out, so that a field of
 * the configuration can be changed without helm; they change only the checksum of the
 * configuration.
 */
export function inputsDigest(): string {
  const files = globSync('**/*', { cwd: CHART, withFileTypes: true })
    .filter((entry) => entry.isFile() && !['README.md', 'values.schema.json', 'validation.json'].includes(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
  const hash = createHash('sha256')
  for (const file of [...files.sort(), join(import.meta.dirname, 'everything.yaml')])
    hash.update(`${basename(file)}\n`).update(readFileSync(file))
  return `${hash.digest('hex')}\n`
}
