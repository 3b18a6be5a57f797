import assert from 'node:assert/strict'
import { test } from 'node:test'
import { featureGatesOf } from '../../src/daemon/proxy-metrics.ts'

test('featureGatesOf lists the gates that matter to a service proxy, as kube-proxy 1.37 shows them', () => {
  assert.deepEqual(
    featureGatesOf({ AllAlpha: true, WatchListClient: false, NFTablesProxyMode: true }).map(Object.values),
    [
      ['AllAlpha', 'ALPHA', true],
      ['AllBeta', 'BETA', false],
      ['LoggingAlphaOptions', 'ALPHA', false],
      ['LoggingBetaOptions', 'BETA', true],
      ['PreferSameTrafficDistribution', '', true],
      ['WatchListClient', 'BETA', false],
    ],
  )
})
