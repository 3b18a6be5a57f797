import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { decodeConfigurationFile } from '../../src/config/file.ts'
import { decodeConfiguration, loadConfiguration } from '../../src/config/load.ts'
import { defaultConfiguration } from '../support/configuration.ts'

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'

/** The first problem of a text, as `code subject field: message`. */
function firstProblem(text: string): string {
  const result = loadConfiguration(text, 'c.yaml')
  const problem = 'errors' in result ? result.errors[0] : result.warnings[0]
  if (problem === undefined) return 'none'
  return `${problem.code} ${problem.subject} ${problem.field ?? '-'}: ${problem.message}`
}

test('loadConfiguration reports the line, the field and the probably intended name', () => {
  const rows: readonly (readonly [text: string, expected: string])[] = [
    [`${HEAD}mode: ipvs\n`, 'none'],
    [`\ufeff${HEAD}mode: ipvs\r\n`, 'none'],
    [`---\n${HEAD}mode: ipvs\n---\n`, 'none'],
    [`${HEAD}mode: ipvs\n---\na: [`, 'config-more-documents c.yaml -: only the first of its 2 documents counts'],
    [
      `${HEAD}mode: ipvs\n---\n${HEAD}mode: iptables\n---\n# nothing\n---\na: b\n`,
      'config-more-documents c.yaml -: only the first of its 3 documents counts',
    ],
    [
      `${HEAD}mode: ipvs\nipvs:\n  a: 1\n  strictArp: true\n`,
      'config-unknown-field c.yaml:5 ipvs.a: unknown field, ignored',
    ],
    [
      `${HEAD}ipvs:\n  strictArp: true\n`,
      'config-unknown-field c.yaml:4 ipvs.strictArp: unknown field, ignored (did you mean strictARP?)',
    ],
    [
      `${HEAD}logging: {vmodule: [{filePatern: a, filePattern: b}]}\n`,
      'config-unknown-field c.yaml:3 logging.vmodule[0].filePatern: unknown field, ignored',
    ],
    [`${HEAD}mode: iptables\nmode: ipvs\n`, 'config-duplicate-field c.yaml -: line 4: key "mode" already set in map'],
    [
      `${HEAD}featureGates: {WatchList: true}\nwinkernel: {networkName: a}\nnftables: {masqueradeBit: 14}\n`,
      'config-no-effect c.yaml -: without effect here: featureGates.WatchList, winkernel',
    ],
    [`${HEAD}mode: ipvs\nfeatureGates: {KubeProxyIPVS: true}\n`, 'none'],
    [`${HEAD}nodePortAddresses: [primary, localhost, 10.0.0.0/8]\n`, 'none'],
    [`${HEAD}nodePortAddresses: [all]\n`, 'none'],
    [
      `${HEAD}showHiddenMetricsForVersion: '1.36'\n`,
      'config-no-effect c.yaml -: without effect here: showHiddenMetricsForVersion',
    ],
    [
      `${HEAD}mode: ipvs\nfeatureGates: {KubeProxyIPVS: false}\n`,
      'config-invalid c.yaml -: failed validate: KubeProxyConfiguration.Mode.ProxyMode: Invalid value: "ipvs": must be iptables, nftables or blank (blank means the best-available proxy [currently iptables])',
    ],
    [
      `${HEAD}mode: ipvs\nkubeIPVS: null\nfeatureGates: {KubeProxyIPVS: false}\n`,
      'config-invalid c.yaml -: failed validate: KubeProxyConfiguration.Mode.ProxyMode: Invalid value: "ipvs": must be iptables, nftables or blank (blank means the best-available proxy [currently iptables])',
    ],
    [
      `${HEAD}mode: bogus\nfeatureGates: {KubeProxyIPVS: false}\n`,
      'config-invalid c.yaml -: failed validate: KubeProxyConfiguration.Mode.ProxyMode: Invalid value: "bogus": must be iptables, nftables or blank (blank means the best-available proxy [currently iptables])',
    ],
    ...['{}', '{fallback: none}'].map((block): readonly [string, string] => [
      `${HEAD}mode: ipvs\nkubeIPVS: ${block}\nfeatureGates: {KubeProxyIPVS: false}\n`,
      'config-ipvs-gate c.yaml featureGates.KubeProxyIPVS: ipvs mode starts although it is false, because kubeIPVS is configured and this program is the IPVS proxy',
    ]),
    [`${HEAD}mode: iptables\nfeatureGates: {KubeProxyIPVS: false}\n`, 'none'],
    [`${HEAD}mode: iptables\nkubeIPVS: {}\nfeatureGates: {KubeProxyIPVS: false}\n`, 'none'],
    // None of these sets the gate, whatever its default becomes in 1.40.
    [`${HEAD}mode: ipvs\n`, 'none'],
    [`${HEAD}mode: ipvs\nfeatureGates: {AllBeta: false, AllAlpha: false}\n`, 'none'],
    [
      `${HEAD}featureGates: {NFTablesNetlink: false}\n`,
      'config-no-effect c.yaml -: without effect here: featureGates.NFTablesNetlink',
    ],
    [
      `${HEAD}featureGates: {KubeProxyIpv: true}\n`,
      'config-unknown-gate c.yaml featureGates.KubeProxyIpv: unknown feature gate, ignored (did you mean KubeProxyIPVS?)',
    ],
    [
      `${HEAD}featureGates: {OfTheNextRelease: false}\n`,
      'config-unknown-gate c.yaml featureGates.OfTheNextRelease: unknown feature gate, ignored',
    ],
    [
      `${HEAD}mode: nftables\n`,
      'config-mode c.yaml -: kube-ipvs has the modes ipvs and iptables, not nftables: set one of them, or run kube-proxy itself for nftables',
    ],
    [
      `${HEAD}kubeIPVS: {drainDedline: 5s}\n`,
      'config-unknown-field c.yaml:3 kubeIPVS.drainDedline: unknown field, ignored (did you mean drainDeadline?)',
    ],
    [
      `${HEAD}kubeIPVS: {drainDeadline: -5s, allowedExternalIPs: [foo], allowedLoadBalancerIPs: [1.2.3.4], maxFrontendsPerService: 0, maxRealServers: 0, serviceMetricsLimit: -1}\n`,
      'config-invalid c.yaml -: failed validate: [KubeProxyConfiguration.kubeIPVS.drainDeadline: Invalid value: "-5s": must be greater than or equal to 0, KubeProxyConfiguration.kubeIPVS.serviceMetricsLimit: Invalid value: -1: must be greater than or equal to 0, KubeProxyConfiguration.kubeIPVS.maxFrontendsPerService: Invalid value: 0: must be greater than 0, KubeProxyConfiguration.kubeIPVS.maxRealServers: Invalid value: 0: must be greater than 0, KubeProxyConfiguration.kubeIPVS.allowedExternalIPs[0]: Invalid value: "foo": must be a valid CIDR, KubeProxyConfiguration.kubeIPVS.allowedLoadBalancerIPs[0]: Invalid value: "1.2.3.4": must be a valid CIDR]',
    ],
    ...['run/x.sock', `/${'x'.repeat(107)}`, '"/run/a b"', '"/run/a\\u0000"', '/rün/x.sock'].map(
      (path): readonly [string, string] => [
        `${HEAD}kubeIPVS: {socket: ${path}}\n`,
        `config-invalid c.yaml -: failed validate: KubeProxyConfiguration.kubeIPVS.socket: Invalid value: ${path.startsWith('"') ? path.replace('u0000', 'x00') : `"${path}"`}: must be an absolute path of at most 107 printable ASCII characters without spaces, or empty`,
      ],
    ),
    [
      `${HEAD}kubeIPVS: {drainDeadline: 5}\n`,
      'config-decode c.yaml -: failed complete: failed to decode: line 3: kubeIPVS.drainDeadline: expected string, received number',
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

test('decodeConfiguration names line, field and both types of a broken value', () => {
  const rows: readonly (readonly [text: string, error: string])[] = [
    ['mode: 5\nbindAddress: 5\n', 'line 4: bindAddress: expected string, received number'],
    ['ipvs: []\n', 'line 3: ipvs: expected object, received array'],
    ['mode: ipvs\nconfigSyncPeriod: 1x\n', 'line 4: configSyncPeriod: time: unknown unit "x" in duration "1x"'],
    ['configSyncPeriod: null\n', 'line 3: configSyncPeriod: time: invalid duration ""'],
    ['clientConnection: {qps: x}\n', 'line 3: clientConnection.qps: expected number, received string'],
    ['clientConnection: {qps: 1e400}\n', 'line 3: clientConnection.qps: expected number, received string'],
    ['oomScoreAdj: 1.5\n', 'line 3: oomScoreAdj: expected int, received number'],
    ['oomScoreAdj: .inf\n', 'oomScoreAdj: not a finite number'],
    ['ipvs: {excludeCIDRs: [1, .nan]}\n', 'ipvs.excludeCIDRs[1]: not a finite number'],
    [
      'logging: {flushFrequency: 1.5}\n',
      'line 3: logging.flushFrequency: expected a duration, or nanoseconds as a number',
    ],
    ["logging: {flushFrequency: '1'}\n", 'line 3: logging.flushFrequency: time: missing unit in duration "1"'],
    ['logging: {vmodule: [5]}\n', 'line 3: logging.vmodule[0]: expected object, received number'],
    [
      'logging:\n  vmodule:\n  - filePattern: 5\n',
      'line 5: logging.vmodule[0].filePattern: expected string, received number',
    ],
    ['featureGates: {AllBeta: 1}\n', 'line 3: featureGates.AllBeta: expected boolean, received number'],
    [
      'logging: {options: {json: {splitStream: 3}}}\n',
      'line 3: logging.options.json.splitStream: expected boolean, received number',
    ],
    [
      'logging: {options: {json: {infoBufferSize: x}}}\n',
      "line 3: logging.options.json.infoBufferSize: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ],
    [
      'logging: {options: {json: {infoBufferSize: []}}}\n',
      'line 3: logging.options.json.infoBufferSize: expected a size',
    ],
  ]
  for (const [text, error] of rows) {
    const decoded = decodeConfiguration(HEAD + text, 'c.yaml')
    assert.ok('errors' in decoded, text)
    assert.equal(decoded.errors[0]?.message, `failed complete: failed to decode: ${error}`)
  }
  const large = decodeConfiguration(`${HEAD}conntrack: {maxPerCore: 99999999999}\n`, 'c.yaml')
  assert.ok('errors' in large)
  assert.match(large.errors[0]?.message ?? '', /: line 3: conntrack\.maxPerCore: Too big: /)
})

test('decodeConfiguration says which kind it expects', () => {
  const rows: readonly (readonly [text: string, error: string])[] = [
    ['- a\n', 'expected a KubeProxyConfiguration, received array'],
    ['hello\n', 'expected a KubeProxyConfiguration, received string'],
    ['', 'kind is missing'],
    ['kind: KubeProxyConfiguration\n', 'apiVersion is missing'],
    ['kind: 1\n', 'kind: expected string, received number'],
    [
      'kind: KubeProxyConfiguration\napiVersion: v1\n',
      'expected kind "KubeProxyConfiguration" of version "kubeproxy.config.k8s.io/v1alpha1", received "KubeProxyConfiguration" of version "v1"',
    ],
  ]
  for (const [text, error] of rows) {
    const decoded = decodeConfiguration(text, 'c.yaml')
    assert.ok('errors' in decoded, text)
    assert.equal(decoded.errors[0]?.message, `failed complete: failed to decode: ${error}`)
  }
})

test('defaultConfiguration has the recorded defaults of ipvs mode', () => {
  const { ipvs, iptables, mode, healthzBindAddress, conntrack } = defaultConfiguration()
  assert.deepEqual([mode, ipvs.syncPeriodMs, ipvs.minSyncPeriodMs, iptables.syncPeriodMs], ['ipvs', 30_000, 0, 0])
  assert.deepEqual([healthzBindAddress, conntrack.tcpEstablishedTimeoutMs], ['0.0.0.0:10256', 86_400_000])
})

test('decodeConfigurationFile reports a file that cannot be read', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-config-'))
  try {
    const path = join(folder, 'c.yaml')
    const missing = await decodeConfigurationFile(path)
    assert.ok('errors' in missing)
    assert.deepEqual([missing.errors[0]?.code, missing.errors[0]?.subject], ['config-unreadable', path])
    const directory = await decodeConfigurationFile(folder)
    assert.ok('errors' in directory)
    assert.equal(directory.errors[0]?.message, `failed complete: read ${folder}: is a directory`)
    writeFileSync(path, `${HEAD}mode: ipvs\n`)
    assert.ok('configuration' in (await decodeConfigurationFile(path)))
  } finally {
    rmSync(folder, { recursive: true })
  }
})
