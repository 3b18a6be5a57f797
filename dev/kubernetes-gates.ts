/**
 * Compares src/config/known-gates.ts with the feature gates that kube-proxy of a release registers,
 * for docs/dev/next-minor.md: `node dev/kubernetes-gates.ts 1.38.1` reads the Go modules
 * k8s.io/kubernetes@v1.38.1 and its staging modules v0.38.1, which `go mod download` has fetched,
 * and prints a line for each gate whose stage, default, lock or needs differ.
 * @impure
 */
import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { knownGates, neededGates } from '../src/config/known-gates.ts'

/** A gate as the sources of a release define it. */
export interface SourceGate {
  /** In the words of known-gates.ts: `settled true locked`. */
  readonly state: string
  readonly needs: readonly string[]
}

/** The staging modules that register gates in kube-proxy. */
const STAGING = ['apiserver', 'component-base', 'client-go', 'controller-manager', 'apiextensions-apiserver']

const STAGES: Readonly<Record<string, string>> = {
  Alpha: 'alpha',
  Beta: 'beta',
  GA: 'settled',
  Deprecated: 'deprecated',
}

/** `Feature featuregate.Feature = "Name"` */
const NAME = /^\s*(?:const\s+)?(\w+)\s+(?:\w+\.)?Feature\s*=\s*"(\w+)"/gm
/** The versions of one gate: `Feature: {`, a line for each version, `},`. */
const VERSIONS = /^\t(?:\w+\.)?(\w+):\s*\{\n((?:\t\t.*\n)+?)\t\},/gm
const VERSION = /\{Version: version\.(?:MustParse\("1\.(\d+)"\)|MajorMinor\(1, (\d+)\)), Default: (\w+)(.*)\}/g
const NEEDS = /map\[featuregate\.Feature\]\[\]featuregate\.Feature\{([^]*?)\n\}/g
const NEED = /^\t(?:\w+\.)?(\w+):\s*\{([^{}]+)\}/gm

/**
 * The gates that these Go sources define, as they are in a minor release.
 * @param minor 38 of 1.38
 */
export function gatesIn(sources: readonly string[], minor: number): ReadonlyMap<string, SourceGate> {
  const names = new Map(
    sources.flatMap((text) => Array.from(text.matchAll(NAME), ([, go = '', name = '']) => [go, name])),
  )
  const nameOf = (go: string): string => names.get(go) ?? go
  const needs = new Map(
    sources.flatMap((text) =>
      Array.from(text.matchAll(NEEDS), ([, body = '']) => body).flatMap((body) =>
        Array.from(body.matchAll(NEED), ([, go = '', list = '']) => {
          const needed = list.split(',').flatMap((one) => /(\w+)\)?\s*$/.exec(one)?.[1] ?? [])
          return [nameOf(go), needed.map(nameOf).sort()] as const
        }),
      ),
    ),
  )
  const gates = new Map<string, SourceGate>()
  for (const text of sources)
    for (const [, go = '', body = ''] of text.matchAll(VERSIONS)) {
      const state = stateIn(body, minor)
      if (state !== undefined) gates.set(nameOf(go), { state, needs: needs.get(nameOf(go)) ?? [] })
    }
  return gates
}

/** The newest state that is not newer than the release; undefined: the gate has none yet, or this is no gate. */
function stateIn(versions: string, minor: number): string | undefined {
  let state: string | undefined
  for (const [, one, other, on, rest = ''] of versions.matchAll(VERSION)) {
    if (Number(one ?? other) > minor) continue
    const stage = /PreRelease: (?:\w+\.)?(\w+)/.exec(rest)?.[1] ?? ''
    state = [STAGES[stage] ?? stage, on, ...(rest.includes('LockToDefault: true') ? ['locked'] : [])].join(' ')
  }
  return state
}

/** One line for each gate that known-gates.ts has otherwise than the release. */
export function differences(gates: ReadonlyMap<string, SourceGate>): readonly string[] {
  const needs = new Map(neededGates())
  const lines = [...gates].flatMap(([name, { state, needs: wanted }]) => {
    const known = knownGates().get(name)
    if (known === undefined)
      return [`${name}: new, ${state}${wanted.length === 0 ? '' : `, needs ${wanted.join(' ')}`}`]
    const ours = [known.stage, String(known.on), ...(known.locked ? ['locked'] : [])].join(' ')
    const [has, needed] = [(needs.get(name) ?? []).join(' '), wanted.join(' ')]
    return [
      ...(ours === state ? [] : [`${name}: ${ours} here, ${state} in the release`]),
      ...(has === needed ? [] : [`${name}: needs ${has || 'nothing'} here, ${needed || 'nothing'} in the release`]),
    ]
  })
  const gone = [...knownGates().keys()].filter((name) => !gates.has(name))
  return [...lines.sort(), `not in these sources: ${gone.sort().join(' ')}`]
}

if (import.meta.main) {
  const [release = ''] = process.argv.slice(2)
  const [, minor = '', patch = ''] = /^1\.(\d+)\.(\d+)$/.exec(release) ?? []
  if (minor === '') throw new Error('the release is missing: node dev/kubernetes-gates.ts 1.38.1')
  const modules = join(execFileSync('go', ['env', 'GOMODCACHE'], { encoding: 'utf8' }).trim(), 'k8s.io')
  const files = [
    ...globSync(join(modules, `kubernetes@v${release}/pkg/features/*.go`)),
    ...STAGING.flatMap((module) => globSync(join(modules, `${module}@v0.${minor}.${patch}/**/*.go`))),
  ].filter((file) => !file.endsWith('_test.go'))
  const sources = files.map((file) => readFileSync(file, 'utf8')).filter((text) => text.includes('PreRelease'))
  const gates = gatesIn(sources, Number(minor))
  if (gates.size === 0)
    throw new Error(`no gates in ${modules}: go mod download k8s.io/kubernetes@v${release} and its staging modules`)
  process.stdout.write(`${differences(gates).join('\n')}\n`)
}
