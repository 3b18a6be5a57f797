import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { readConfigurationFile } from '../../src/config/file.ts'
import { defaultConfiguration, formatConfigurationErrors, loadConfiguration } from '../../src/config/load.ts'
import { configurationFromFlags, nodeName, overrideConfiguration } from '../../src/config/overrides.ts'

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'

/** The first problem of a text, as `code subject field: message`. */
function firstProblem(text: string): string {
  const result = loadConfiguration(text, 'c.yaml')
  const problem = 'errors' in result ? result.errors[0] : result.warnings[0]
  if (problem === undefined) return 'none'
  return `${problem.code} ${problem.subject} ${problem.field ?? '-'}: ${problem.message}`
}

test('loadConfiguration names line, field and reason', () => {
  const rows: readonly (readonly [text: string, expected: string])[] = [
    [`${HEAD}mode: ipvs\n`, 'none'],
    [`\ufeff${HEAD}mode: ipvs\r\n`, 'none'],
    [`${HEAD}mode: ipvs\n---\na: [`, 'none'],
    [`${HEAD}ipvs:\n  scheduler: 5\n`, 'config-type c.yaml:4 ipvs.scheduler: expected a text, got 5'],
    [`${HEAD}oomScoreAdj: 1.5\n`, 'config-type c.yaml:3 oomScoreAdj: expected a whole number, got 1.5'],
    [
      `${HEAD}conntrack: {min: 9999999999}\n`,
      'config-type c.yaml:3 conntrack.min: 9999999999 does not fit into 32 bits',
    ],
    [`${HEAD}ipvs: [1]\n`, 'config-type c.yaml:3 ipvs: expected a block of fields, got a list'],
    [
      `${HEAD}enableProfiling: "yes"\n`,
      'config-type c.yaml:3 enableProfiling: expected true or false, got the text "yes"',
    ],
    [`${HEAD}nodePortAddresses:\n- a\n- 5\n`, 'config-type c.yaml:5 nodePortAddresses[1]: expected a text, got 5'],
    [`${HEAD}configSyncPeriod: 1d\n`, 'config-type c.yaml:3 configSyncPeriod: time: unknown unit "d" in duration "1d"'],
    [
      `${HEAD}logging:\n  flushFrequency: 1d\n`,
      'config-type c.yaml:4 logging.flushFrequency: time: unknown unit "d" in duration "1d"',
    ],
    [
      `${HEAD}logging: {flushFrequency: true}\n`,
      'config-type c.yaml:3 logging.flushFrequency: expected a text or a number, got true',
    ],
    [
      `${HEAD}mode: ipvs\nipvs:\n  a: 1\n  strictArp: true\n`,
      'config-unknown-field c.yaml:5 ipvs.a: unknown field, ignored',
    ],
    [
      `${HEAD}ipvs:\n  strictArp: true\n`,
      'config-unknown-field c.yaml:4 ipvs.strictArp: unknown field, ignored (did you mean strictARP?)',
    ],
    [`${HEAD}syncPeriods: 1s\n`, 'config-unknown-field c.yaml:3 syncPeriods: unknown field, ignored'],
    [
      `${HEAD}logging: {vmodule: [{filePatern: a, filePattern: b}]}\n`,
      'config-unknown-field c.yaml:3 logging.vmodule[0].filePatern: unknown field, ignored (did you mean filePattern?)',
    ],
    [`${HEAD}mode: iptables\nmode: ipvs\n`, 'config-duplicate-field c.yaml:4 mode: given twice; the last one counts'],
    [
      `${HEAD}featureGates: {Nope: true}\n`,
      'config-no-effect c.yaml featureGates.Nope: kube-ipvs has no such feature gate; it has no effect here',
    ],
    [
      '',
      'config-kind c.yaml -: is empty; expected apiVersion: kubeproxy.config.k8s.io/v1alpha1 and kind: KubeProxyConfiguration',
    ],
    ['kind: Pod\n', 'config-kind c.yaml apiVersion: is missing; expected kubeproxy.config.k8s.io/v1alpha1'],
    [
      'a: *b\n',
      'config-syntax c.yaml -: not valid YAML: Unresolved alias (the anchor must be set before the alias): b',
    ],
    [
      `${HEAD}hostnameOverride: "a\u0007"\n`,
      'config-syntax c.yaml:3 -: not valid YAML: control characters are not allowed',
    ],
    [
      `${HEAD}mode: nftables\n`,
      'config-invalid c.yaml KubeProxyConfiguration.Mode.ProxyMode: Invalid value: "nftables": kube-ipvs has the modes ipvs and iptables; set mode: ipvs here, or run kube-proxy itself for nftables',
    ],
  ]
  for (const [text, expected] of rows) assert.equal(firstProblem(text), expected, text)
})

test('loadConfiguration keeps the last of two values and drops unknown fields', () => {
  const result = loadConfiguration(`${HEAD}mode: iptables\nmode: ipvs\nipvs: {nope: 1, scheduler: sh}\n`, 'c.yaml')
  assert.ok('configuration' in result)
  assert.equal(result.configuration.mode, 'ipvs')
  assert.equal(result.configuration.ipvs.scheduler, 'sh')
  assert.ok(!('nope' in result.configuration.ipvs))
  assert.equal(result.warnings.length, 2)
})

test('loadConfiguration survives any text', () => {
  for (const text of [
    '\0',
    '{',
    '&a [*a]',
    '- - -',
    '? a\n: b',
    'a: !!binary x',
    '<<: 1',
    '"',
    '%YAML 1.2\n---\na: 1',
    '!!js/function x',
  ]) {
    assert.ok('errors' in loadConfiguration(text, 'c.yaml'), text)
  }
})

test('defaultConfiguration has the recorded defaults of ipvs mode', () => {
  const { ipvs, iptables, mode, healthzBindAddress, conntrack } = defaultConfiguration()
  assert.deepEqual([mode, ipvs.syncPeriodMs, ipvs.minSyncPeriodMs, iptables.syncPeriodMs], ['ipvs', 30_000, 0, 0])
  assert.deepEqual([healthzBindAddress, conntrack.tcpEstablishedTimeoutMs], ['0.0.0.0:10256', 86_400_000])
})

test('configurationFromFlags and overrideConfiguration apply what counts', () => {
  const flags = configurationFromFlags({
    proxyMode: 'iptables',
    kubeconfig: '/k',
    hostnameOverride: ' Node-A ',
    verbosity: 3,
  })
  assert.ok('configuration' in flags)
  const { mode, clientConnection, hostnameOverride, logging } = flags.configuration
  assert.deepEqual(
    [mode, clientConnection.kubeconfig, hostnameOverride, logging.verbosity],
    ['iptables', '/k', 'node-a', 3],
  )

  const over = overrideConfiguration(flags.configuration, {
    proxyMode: 'ipvs',
    kubeconfig: '/other',
    loggingFormat: 'json',
  })
  assert.ok('configuration' in over)
  assert.deepEqual(
    [over.configuration.mode, over.configuration.clientConnection.kubeconfig, over.configuration.logging.format],
    ['iptables', '/k', 'json'],
  )
  assert.equal(nodeName(over.configuration, 'Host'), 'node-a')
  assert.equal(nodeName(defaultConfiguration(), ' Host\n'), 'host')
})

test('configurationFromFlags refuses what kube-proxy refuses', () => {
  for (const [overrides, expected] of [
    [{ hostnameOverride: '  ' }, 'empty hostname-override is invalid'],
    [{ loggingFormat: 'xml' }, 'logging.format: Invalid value: "xml": Unsupported log format'],
    [{ proxyMode: 'bogus' }, /^KubeProxyConfiguration\.Mode\.ProxyMode: Invalid value: "bogus": must be iptables/],
  ] as const) {
    const result = configurationFromFlags(overrides)
    assert.ok('errors' in result)
    const message = formatConfigurationErrors(result.errors)
    if (typeof expected === 'string') assert.equal(message, expected)
    else assert.match(message, expected)
  }
})

test('readConfigurationFile reports a file that cannot be read', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-config-'))
  try {
    const path = join(folder, 'c.yaml')
    const missing = await readConfigurationFile(path)
    assert.ok('errors' in missing)
    assert.deepEqual([missing.errors[0]?.code, missing.errors[0]?.subject], ['config-unreadable', path])
    const directory = await readConfigurationFile(folder)
    assert.ok('errors' in directory && directory.errors[0]?.code === 'config-unreadable')
    writeFileSync(path, `${HEAD}mode: ipvs\n`)
    assert.ok('configuration' in (await readConfigurationFile(path)))
  } finally {
    rmSync(folder, { recursive: true })
  }
})
