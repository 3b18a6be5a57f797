/**
 * Writes test/recordings/openapi/kubernetes.json: what the OpenAPI document of each Kubernetes
 * release says of the kinds in the chart. The documents are in the Go module of each release:
 * `go mod download k8s.io/kubernetes@v1.37.2; node dev/helm/record-openapi.ts v1.37.2 ...`
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectFolder } from '../progress.mjs'

/** The kinds that the chart renders. */
const ROOTS = [
  'io.k8s.api.apps.v1.DaemonSet',
  'io.k8s.api.batch.v1.Job',
  'io.k8s.api.core.v1.ConfigMap',
  'io.k8s.api.core.v1.Pod',
  'io.k8s.api.core.v1.ServiceAccount',
  'io.k8s.api.rbac.v1.ClusterRole',
  'io.k8s.api.rbac.v1.ClusterRoleBinding',
]

type Json = Readonly<Record<string, unknown>>

/** A definition without its texts and without hints for patches, which validation does not need. */
function stripped(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(stripped)
  if (typeof value !== 'object' || value === null) return value
  const kept = Object.entries(value).filter(
    ([key, inner]) =>
      (key !== 'description' || typeof inner !== 'string') &&
      (!key.startsWith('x-') || key === 'x-kubernetes-group-version-kind'),
  )
  return Object.fromEntries(kept.map(([key, inner]) => [key, stripped(inner)]))
}

/** Definitions that the roots reach. */
function reached(definitions: Readonly<Record<string, Json>>): ReadonlyMap<string, unknown> {
  const found = new Map<string, unknown>()
  const open = [...ROOTS]
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (found.has(name)) continue
    const definition = stripped(definitions[name])
    if (definition === undefined) throw new Error(`no definition of ${name}`)
    found.set(name, definition)
    for (const [, next = ''] of JSON.stringify(definition).matchAll(/"#\/definitions\/([^"]+)"/g)) open.push(next)
  }
  return found
}

const releases = process.argv.slice(2)
const cache = execFileSync('go', ['env', 'GOMODCACHE'], { encoding: 'utf8' }).trim()
/** By name and text, the releases that have it. */
const definitions = new Map<string, { name: string; releases: string[]; definition: unknown }>()
for (const release of releases) {
  const path = join(cache, `k8s.io/kubernetes@${release}/api/openapi-spec/swagger.json`)
  for (const [name, definition] of reached(JSON.parse(readFileSync(path, 'utf8')).definitions)) {
    const key = `${name} ${JSON.stringify(definition)}`
    const known = definitions.get(key) ?? { name, releases: [], definition }
    known.releases.push(release)
    definitions.set(key, known)
  }
}
const folder = join(projectFolder, 'test/recordings/openapi')
mkdirSync(folder, { recursive: true })
const lines = [...definitions.values()].sort((a, b) => (a.name < b.name ? -1 : 1)).map((one) => JSON.stringify(one))
writeFileSync(
  join(folder, 'kubernetes.json'),
  `{"releases": ${JSON.stringify(releases)}, "definitions": [\n${lines.join(',\n')}\n]}\n`,
)
