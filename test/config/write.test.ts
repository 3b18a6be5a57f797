/**
 * A configuration as `--write-config-to` writes it: which fields, and texts as kube-proxy 1.37.2
 * writes them after a key.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseConfigurationDocument } from '../../src/config/document.ts'
import { decodeConfiguration, loadConfiguration } from '../../src/config/load.ts'
import { toV1alpha1, toYaml } from '../../src/config/write.ts'

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'

/** Values of `winkernel.networkName`. */
const ROWS: readonly (readonly [value: string, written: string])[] = [
  ['a: b', "'a: b'"],
  ['a #b', "'a #b'"],
  ['a:', "'a:'"],
  ['- a', "'- a'"],
  ['-', "'-'"],
  ['? a', "'? a'"],
  [': a', "': a'"],
  ['a,b', 'a,b'],
  ['[a', "'[a'"],
  ['{', "'{'"],
  ['|', "'|'"],
  ['@a', "'@a'"],
  ['*a', "'*a'"],
  ['#a', "'#a'"],
  ['"a', "'\"a'"],
  ["'a", "'''a'"],
  ['a"b', 'a"b'],
  ["it's", "it's"],
  ['a\tb', '"a\\tb"'],
  ['a\nb', '|-\n    a\n    b'],
  ['a\nb\n', '|\n    a\n    b'],
  [' a\nb', '|2-\n     a\n    b'],
  ['a \nb', '"a \\nb"'],
  ['~', '"~"'],
  ['Null', '"Null"'],
  ['true', '"true"'],
  ['Yes', '"Yes"'],
  ['y', '"y"'],
  ['N', '"N"'],
  ['off', '"off"'],
  ['.nan', '".nan"'],
  ['-.inf', '"-.inf"'],
  ['1', '"1"'],
  ['-1', '"-1"'],
  ['01', '"01"'],
  ['1_0', '"1_0"'],
  ['0x1', '"0x1"'],
  ['0b1', '"0b1"'],
  ['0o1', '"0o1"'],
  ['1.', '"1."'],
  ['.1', '".1"'],
  ['1e3', '"1e3"'],
  ['1e', '1e'],
  ['1:30', '"1:30"'],
  ['1:60', '1:60'],
  ['2001-1-1', '"2001-1-1"'],
  ['2001-01-01T00:00:00Z', '"2001-01-01T00:00:00Z"'],
  ['=', '='],
  ['---', "'---'"],
  ['...', "'...'"],
  ['', '""'],
  ['\u0001', '"\\x01"'],
  ['\u00a0a', '\u00a0a'],
  ['\u200b', '\u200b'],
  ['\ud83d\ude00', '"\\U0001F600"'],
  ['\u00ff', '\u00ff'],
  ['0.0.0.0', '0.0.0.0'],
  ['1.2.3', '1.2.3'],
  ['.', '.'],
  ['-.', '-.'],
  ['%a', "'%a'"],
  ['a@b', 'a@b'],
  [' a', "' a'"],
  ['a ', "'a '"],
  ['5 ', "'5 '"],
  [
    'word word word word word word word word word word word word word word word word  word word word',
    'word word word word word word word word word word word word word word\n    word word  word word word',
  ],
  [
    '# word word word word word word word word word word word word word word word word word word word word',
    "'# word word word word word word word word word word word word word\n    word word word word word word word'",
  ],
]

test('toYaml writes texts as Go does', () => {
  for (const [value, written] of ROWS)
    assert.equal(toYaml({ winkernel: { networkName: value } }), `winkernel:\n  networkName: ${written}\n`)
})

test('parseConfigurationDocument reads back what toYaml writes', () => {
  for (const [value] of ROWS) {
    const text = toYaml({ a: { b: value, c: [value], d: [], e: {}, f: null, g: 5, h: true } })
    const expected = { a: { b: value, c: [value], d: [], e: {}, f: null, g: 5, h: true } }
    const read = parseConfigurationDocument(text)
    assert.ok('value' in read, text)
    assert.deepEqual(read.value, expected, text)
  }
})

test('toV1alpha1 writes fields of kubeIPVS only when they differ from the default', () => {
  const written = (text: string): unknown => {
    const decoded = decodeConfiguration(HEAD + text, 'c.yaml')
    assert.ok('configuration' in decoded)
    assert.equal(decoded.lenient, undefined)
    return toV1alpha1(decoded.configuration)['kubeIPVS']
  }
  assert.equal(written('mode: ipvs\n'), undefined)
  assert.equal(written('kubeIPVS: {drainDeadline: 0s, serviceMetricsLimit: 100}\n'), undefined)
  assert.deepEqual(written('kubeIPVS: {serviceAnnotations: false}\n'), { serviceAnnotations: false })
  // An empty path is no default: it switches the socket off.
  assert.deepEqual(written("kubeIPVS: {socket: ''}\n"), { socket: '' })
  assert.equal(written('kubeIPVS: {socket: /run/kube-ipvs/kube-ipvs.sock}\n'), undefined)
  assert.equal(written('kubeIPVS: {socket: null}\n'), undefined)
  assert.equal(written('kubeIPVS: {serviceAnnotations: true}\n'), undefined)
  assert.deepEqual(written('kubeIPVS: {serviceMetricsLimit: 0}\n'), { serviceMetricsLimit: 0 })
  assert.equal(
    written('kubeIPVS: {allowProtectedExternalIPs: false, maxFrontendsPerService: 10000, maxRealServers: 300000}\n'),
    undefined,
  )
  const own = { allowProtectedExternalIPs: true, allowedLoadBalancerIPs: ['10.0.0.0/8'], maxFrontendsPerService: 5 }
  assert.deepEqual(written(`kubeIPVS: ${JSON.stringify(own)}\n`), own)
  assert.deepEqual(written('kubeIPVS: {drainDeadline: 90s, allowedExternalIPs: []}\n'), {
    allowedExternalIPs: [],
    drainDeadline: '1m30s',
  })
})

test('a written configuration keeps the block kubeIPVS where the gate KubeProxyIPVS depends on it', () => {
  const written = (block: string): boolean => {
    const loaded = loadConfiguration(
      `${HEAD}mode: ipvs\nkubeIPVS: ${block}\nfeatureGates: {KubeProxyIPVS: false}\n`,
      'c.yaml',
    )
    assert.ok('configuration' in loaded)
    const text = toYaml(toV1alpha1(loaded.configuration))
    return 'configuration' in loadConfiguration(text, 'written.yaml')
  }
  assert.deepEqual(['{}', '{fallback: none}', '{drainDeadline: 5s}'].map(written), [true, true, true])
  const ours = loadConfiguration(`${HEAD}mode: ipvs\nkubeIPVS: {}\n`, 'c.yaml')
  assert.ok('configuration' in ours && !('kubeIPVS' in toV1alpha1(ours.configuration)))
})
