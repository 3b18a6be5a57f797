import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differences, gatesIn } from '../../dev/kubernetes-gates.ts'
import { knownGates, neededGates } from '../../src/config/known-gates.ts'

const SOURCE = `
const (
	// owner: @someone
	KubeProxyIPVS featuregate.Feature = "KubeProxyIPVS"
	Renamed featuregate.Feature = "OfTheFuture"
	Later featuregate.Feature = "Later"
)

var versions = map[featuregate.Feature]featuregate.VersionedSpecs{
	KubeProxyIPVS: {
		{Version: version.MustParse("1.0"), Default: true, PreRelease: featuregate.GA},
		{Version: version.MustParse("1.37"), Default: true, PreRelease: featuregate.Deprecated},
		{Version: version.MustParse("1.40"), Default: false, PreRelease: featuregate.Deprecated, LockToDefault: true},
	},

	Renamed: {
		{Version: version.MustParse("1.38"), Default: true, PreRelease: featuregate.Beta},
	},

	Later: {
		{Version: version.MustParse("1.41"), Default: false, PreRelease: featuregate.Alpha},
	},
}

var dependencies = map[featuregate.Feature][]featuregate.Feature{
	KubeProxyIPVS: {},

	Renamed: {featuregate.Feature(clientfeatures.AtomicFIFO), KubeProxyIPVS},
}
`

test('gatesIn reads each gate as it is in a release', () => {
  const stateIn = (minor: number): object =>
    Object.fromEntries(Array.from(gatesIn([SOURCE], minor), ([name, { state }]) => [name, state]))
  assert.deepEqual(stateIn(36), { KubeProxyIPVS: 'settled true' })
  assert.deepEqual(stateIn(38), { KubeProxyIPVS: 'deprecated true', OfTheFuture: 'beta true' })
  assert.deepEqual(stateIn(40), { KubeProxyIPVS: 'deprecated false locked', OfTheFuture: 'beta true' })
  assert.deepEqual(gatesIn([SOURCE], 38).get('OfTheFuture')?.needs, ['AtomicFIFO', 'KubeProxyIPVS'])
})

test('differences names new gates, changed ones, and those that the release does not have', () => {
  const lines = differences(gatesIn([SOURCE], 40))
  assert.deepEqual(lines.slice(0, -1), [
    'KubeProxyIPVS: deprecated true here, deprecated false locked in the release',
    'OfTheFuture: new, beta true, needs AtomicFIFO KubeProxyIPVS',
  ])
  assert.match(lines.at(-1) ?? '', /^not in these sources: .*\bAllAlpha\b.*\bWatchList\b/)
})

test('every gate that needs others is known, and so are those', () => {
  for (const [name, needs] of neededGates())
    for (const one of [name, ...needs]) assert.ok(knownGates().has(one), `${name} needs ${needs.join()}`)
})
