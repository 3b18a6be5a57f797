import assert from 'node:assert/strict'
import { test } from 'node:test'
import { changesBetween, pathsWithoutRestart } from '../../src/config/changes.ts'
import { loadConfiguration } from '../../src/config/load.ts'
import type { KubeProxyConfiguration } from '../../src/config/types.ts'

function configured(more: object, mode: string): KubeProxyConfiguration {
  const header = { apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration', mode }
  const result = loadConfiguration(JSON.stringify({ ...header, ...more }), 'test')
  if ('errors' in result) throw new Error(JSON.stringify(result.errors))
  return result.configuration
}

type Row = readonly [after: object, kind: 'live' | 'restart' | 'withoutEffect', fields: readonly string[]]

const IN_BOTH: readonly Row[] = [
  [{ logging: { verbosity: 4 } }, 'live', ['logging.verbosity']],
  [{ logging: { vmodule: [{ filePattern: 'x', verbosity: 1 }] } }, 'live', ['logging.vmodule']],
  [{ logging: { format: 'json' } }, 'restart', ['logging.format']],
  [{ nodePortAddresses: ['primary'] }, 'live', ['nodePortAddresses']],
  [{ conntrack: { maxPerCore: 1, min: 2 } }, 'live', ['conntrack.maxPerCore', 'conntrack.min']],
  [{ oomScoreAdj: 7 }, 'live', ['oomScoreAdj']],
  [{ clusterCIDR: '10.0.0.0/8' }, 'restart', ['clusterCIDR']],
  [{ hostnameOverride: 'x' }, 'restart', ['hostnameOverride']],
  [{ kubeIPVS: { socket: '' } }, 'restart', ['kubeIPVS.socket']],
  [{ kubeIPVS: { maxRealServers: 5 } }, 'live', ['kubeIPVS.maxRealServers']],
  [{ iptables: { masqueradeAll: true } }, 'restart', ['iptables.masqueradeAll']],
  [{ iptables: { masqueradeBit: 15 } }, 'restart', ['iptables.masqueradeBit']],
  [{ ipvs: { excludeCIDRs: ['10.0.0.0/8'] } }, 'restart', ['ipvs.excludeCIDRs']],
  [{ winkernel: { networkName: 'x' } }, 'withoutEffect', ['winkernel.networkName']],
  [{ showHiddenMetricsForVersion: '1.36' }, 'withoutEffect', ['showHiddenMetricsForVersion']],
  [{ featureGates: { WatchList: false } }, 'withoutEffect', ['featureGates.WatchList']],
  [{ featureGates: { AllowServiceExternalIPs: false } }, 'restart', ['featureGates.AllowServiceExternalIPs']],
  [{ featureGates: { AllBeta: false } }, 'restart', ['featureGates.AllBeta']],
  [{ clientConnection: { qps: 99 } }, 'restart', ['clientConnection.qps']],
]

const IN_MODE: Readonly<Record<'ipvs' | 'iptables', readonly Row[]>> = {
  ipvs: [
    [{ ipvs: { syncPeriod: '1m', minSyncPeriod: '1s' } }, 'live', ['ipvs.minSyncPeriod', 'ipvs.syncPeriod']],
    [{ ipvs: { scheduler: 'lc' } }, 'restart', ['ipvs.scheduler']],
    [{ ipvs: { syncPeriod: '30s' } }, 'live', []],
    [{ iptables: { syncPeriod: '7s', localhostNodePorts: false } }, 'withoutEffect', ['iptables.localhostNodePorts']],
    [{ conntrack: { tcpBeLiberal: true } }, 'live', ['conntrack.tcpBeLiberal']],
  ],
  iptables: [
    [
      { iptables: { syncPeriod: '1m', minSyncPeriod: '2s' } },
      'live',
      ['iptables.minSyncPeriod', 'iptables.syncPeriod'],
    ],
    [{ iptables: { localhostNodePorts: false } }, 'restart', ['iptables.localhostNodePorts']],
    [
      { ipvs: { syncPeriod: '7s', scheduler: 'lc', strictARP: true } },
      'withoutEffect',
      ['ipvs.scheduler', 'ipvs.strictARP'],
    ],
    [{ ipvs: { tcpTimeout: '1s', udpTimeout: '1s' } }, 'withoutEffect', ['ipvs.tcpTimeout', 'ipvs.udpTimeout']],
    [{ conntrack: { tcpBeLiberal: true } }, 'restart', ['conntrack.tcpBeLiberal']],
  ],
}

for (const mode of ['ipvs', 'iptables'] as const)
  test(`changesBetween sorts changed fields by what a proxy in ${mode} mode does about them`, () => {
    for (const [after, kind, fields] of [...IN_BOTH, ...IN_MODE[mode]]) {
      const expected = { live: [], restart: [], withoutEffect: [], [kind]: fields }
      const [without, withIt] = [configured({}, mode), configured(after, mode)]
      assert.deepEqual(changesBetween(without, withIt), expected, JSON.stringify(after))
      assert.deepEqual(changesBetween(withIt, without), expected, `${JSON.stringify(after)} reverted`)
    }
  })

test('changesBetween requires no new process for another mode, whatever else only that mode reads', () => {
  const [ipvs, iptables] = [{ ipvs: { scheduler: 'lc' } }, { iptables: { localhostNodePorts: false } }]
  for (const [before, after] of [
    [configured({}, 'ipvs'), configured(iptables, 'iptables')],
    [configured({}, 'iptables'), configured(ipvs, 'ipvs')],
  ] as const) {
    const { live, restart } = changesBetween(before, after)
    assert.ok(live.includes('mode'))
    assert.deepEqual(restart, [])
  }
})

test('changesBetween in a fallback keeps the periods of ipvs mode live and requires no new process for what it alone reads', () => {
  const rows: readonly Row[] = [
    ...IN_BOTH,
    [{ ipvs: { syncPeriod: '1m', minSyncPeriod: '1s' } }, 'live', ['ipvs.minSyncPeriod', 'ipvs.syncPeriod']],
    [{ ipvs: { scheduler: 'lc', strictARP: true } }, 'withoutEffect', ['ipvs.scheduler', 'ipvs.strictARP']],
    [{ iptables: { localhostNodePorts: false } }, 'withoutEffect', ['iptables.localhostNodePorts']],
    [{ conntrack: { tcpBeLiberal: true } }, 'restart', ['conntrack.tcpBeLiberal']],
    [{ kubeIPVS: { fallback: 'none' } }, 'withoutEffect', ['kubeIPVS.fallback']],
    [{ kubeIPVS: { serviceAnnotations: false } }, 'withoutEffect', ['kubeIPVS.serviceAnnotations']],
    [{ kubeIPVS: { outlierDetection: true } }, 'withoutEffect', ['kubeIPVS.outlierDetection']],
    [{ kubeIPVS: { switchBack: true } }, 'live', ['kubeIPVS.switchBack']],
  ]
  for (const [after, kind, fields] of rows) {
    const expected = { live: [], restart: [], withoutEffect: [], [kind]: fields }
    assert.deepEqual(changesBetween(configured({}, 'ipvs'), configured(after, 'ipvs'), 'iptables'), expected)
  }
})

test('pathsWithoutRestart has the fields that require no new Pod in any mode, in a fallback and across a switch', () => {
  const paths = new Set<string>(pathsWithoutRestart())
  assert.ok(paths.has('mode') && paths.has('logging.verbosity'))
  const MODES = ['ipvs', 'iptables'] as const
  const ofBothModes = MODES.flatMap((mode) => IN_MODE[mode])
  for (const [after] of [...IN_BOTH, ...ofBothModes])
    for (const before of MODES)
      for (const configuredMode of MODES)
        for (const active of MODES) {
          const changes = changesBetween(configured({}, before), configured(after, configuredMode), active)
          for (const path of changes.restart) assert.ok(!paths.has(path), path)
        }
  for (const path of ['ipvs.scheduler', 'iptables.localhostNodePorts', 'conntrack.tcpBeLiberal', 'conntrack.min'])
    assert.ok(!paths.has(path), path)
})
