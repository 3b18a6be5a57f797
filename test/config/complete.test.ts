/** A configuration from flags, alone and beside a file. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type ConfigurationFlags,
  completeModes,
  configurationFromFlags,
  nameError,
  nodeName,
  withFlagsForFile,
} from '../../src/config/complete.ts'
import { checkConfiguration, decodeConfiguration, defaultDocument } from '../../src/config/load.ts'
import { defaultConfiguration } from '../support/configuration.ts'

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'

test('configurationFromFlags applies every flag, withFlagsForFile only some', () => {
  const flags = configurationFromFlags(defaultDocument(), {
    mode: 'ipvs',
    'clientConnection.kubeconfig': '/k',
    hostnameOverride: ' Node-A ',
    'logging.verbosity': 3,
    'kubeIPVS.allowedExternalIPs': [],
    'kubeIPVS.maxFrontendsPerService': 5,
    'kubeIPVS.maxRealServers': 100_000,
  })
  const { mode, clientConnection, hostnameOverride, logging, kubeIPVS, ipvs } = flags
  assert.deepEqual(
    [mode, clientConnection.kubeconfig, hostnameOverride, logging.verbosity, ipvs.minSyncPeriodMs],
    ['ipvs', '/k', 'node-a', 3, 1_000],
  )
  assert.deepEqual(kubeIPVS, {
    ...defaultDocument().kubeIPVS,
    allowedExternalIPs: [],
    maxFrontendsPerService: 5,
    maxRealServers: 100_000,
  })

  const over = withFlagsForFile(flags, {
    mode: 'iptables',
    'clientConnection.kubeconfig': '/other',
    'logging.format': 'json',
    'kubeIPVS.drainDeadline': 5_000,
  })
  assert.deepEqual(
    [over.mode, over.clientConnection.kubeconfig, over.logging.format, over.kubeIPVS.drainDeadlineMs],
    ['ipvs', '/k', 'json', 5_000],
  )
  assert.equal(nodeName(over, 'Host'), 'node-a')
  assert.equal(nodeName(defaultConfiguration(), ' Host\n'), 'host')
})

test('checkConfiguration refuses values of flags in the words of kube-proxy', () => {
  assert.equal(nameError({ hostnameOverride: '  ' }), 'empty hostname-override is invalid')
  const rows: readonly (readonly [flags: ConfigurationFlags, message: string])[] = [
    [{ 'logging.format': 'xml' }, 'initialize logging: logging.format: Invalid value: "xml": Unsupported log format'],
    [
      { nodePortAddresses: ['primary', 'localhost', 'primary'] },
      'failed validate: KubeProxyConfiguration.NodePortAddresses[2]: Duplicate value: "primary"',
    ],
    [
      { nodePortAddresses: ['Localhost'] },
      "failed validate: KubeProxyConfiguration.NodePortAddresses[0]: Invalid value: \"Localhost\": must be a valid CIDR or one of the keywords 'primary', 'localhost', 'all'",
    ],
    [
      { featureGates: { NFTablesProxyMode: false, Nope: true } },
      'failed complete: cannot set feature gate NFTablesProxyMode to false, feature is locked to true',
    ],
    [
      { metricsPort: 0 },
      'failed validate: KubeProxyConfiguration.MetricsBindAddress: Invalid value: "": must be IP:port',
    ],
  ]
  for (const [flags, message] of rows) {
    const result = checkConfiguration(completeModes(configurationFromFlags(defaultDocument(), flags)), 'flags')
    assert.ok('errors' in result)
    assert.equal(result.errors[0]?.message, message)
  }
})

test('a flag of kubeIPVS counts as its block for the gate KubeProxyIPVS, but not beside a file', () => {
  const check = (flags: ConfigurationFlags): boolean =>
    'configuration' in checkConfiguration(completeModes(configurationFromFlags(defaultDocument(), flags)), 'flags')
  const off = { mode: 'ipvs', featureGates: { KubeProxyIPVS: false } }
  assert.equal(check(off), false)
  assert.equal(check({ ...off, 'kubeIPVS.fallback': 'none' }), true)
  const decoded = decodeConfiguration(`${HEAD}mode: ipvs\nfeatureGates: {KubeProxyIPVS: false}\n`, 'c.yaml')
  assert.ok('configuration' in decoded)
  const beside = withFlagsForFile(decoded.configuration, { 'kubeIPVS.fallback': 'none' })
  assert.ok('errors' in checkConfiguration(beside, 'c.yaml'))
})
