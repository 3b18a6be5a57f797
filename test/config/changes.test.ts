import assert from 'node:assert/strict'
import { test } from 'node:test'
import { changesBetween } from '../../src/config/changes.ts'
import { loadConfiguration } from '../../src/config/load.ts'
import type { KubeProxyConfiguration } from '../../src/config/types.ts'

function configured(more: object = {}): KubeProxyConfiguration {
  const header = { apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration', mode: 'ipvs' }
  const result = loadConfiguration(JSON.stringify({ ...header, ...more }), 'test')
  if ('errors' in result) throw new Error(JSON.stringify(result.errors))
  return result.configuration
}

test('changesBetween tells what can be taken over and what takes a new process', () => {
  const rows: readonly (readonly [
    after: object,
    kind: 'live' | 'restart' | 'withoutEffect',
    fields: readonly string[],
  ])[] = [
    [{ logging: { verbosity: 4 } }, 'live', ['logging.verbosity']],
    [{ logging: { vmodule: [{ filePattern: 'x', verbosity: 1 }] } }, 'live', ['logging.vmodule']],
    [{ logging: { format: 'json' } }, 'restart', ['logging.format']],
    [{ ipvs: { syncPeriod: '1m', minSyncPeriod: '1s' } }, 'live', ['ipvs.minSyncPeriod', 'ipvs.syncPeriod']],
    [{ ipvs: { scheduler: 'lc' } }, 'restart', ['ipvs.scheduler']],
    [{ nodePortAddresses: ['primary'] }, 'live', ['nodePortAddresses']],
    [{ conntrack: { maxPerCore: 1, min: 2 } }, 'live', ['conntrack.maxPerCore', 'conntrack.min']],
    [{ oomScoreAdj: 7 }, 'live', ['oomScoreAdj']],
    [{ clusterCIDR: '10.0.0.0/8' }, 'restart', ['clusterCIDR']],
    [{ hostnameOverride: 'x' }, 'restart', ['hostnameOverride']],
    [{ iptables: { syncPeriod: '7s', localhostNodePorts: false } }, 'withoutEffect', ['iptables.localhostNodePorts']],
    [{ winkernel: { networkName: 'x' } }, 'withoutEffect', ['winkernel.networkName']],
    [{ clientConnection: { qps: 99 } }, 'restart', ['clientConnection.qps']],
    [{ ipvs: { syncPeriod: '30s' } }, 'live', []],
  ]
  for (const [after, kind, fields] of rows) {
    const expected = { live: [], restart: [], withoutEffect: [], [kind]: fields }
    assert.deepEqual(changesBetween(configured(), configured(after)), expected, JSON.stringify(after))
    assert.deepEqual(changesBetween(configured(after), configured()), expected, `${JSON.stringify(after)} taken back`)
  }
})
