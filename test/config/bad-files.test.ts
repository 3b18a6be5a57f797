/** Broken and hostile files: each gives exactly one error, quickly, with the line where there is one. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { decodeConfigurationFile } from '../../src/config/file.ts'
import { loadConfiguration } from '../../src/config/load.ts'

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'

function errorOf(text: string): string {
  const result = loadConfiguration(text, 'c.yaml')
  assert.ok('errors' in result, text.slice(0, 100))
  assert.equal(result.errors.length, 1)
  return (result.errors[0]?.message ?? '').replace(/^failed complete: failed to decode: /, '')
}

test('loadConfiguration refuses broken YAML, and names the line', () => {
  const rows: readonly (readonly [text: string, line: number | undefined])[] = [
    ['mode: ipvs: x\n', 3],
    ['  a: b\n', 2],
    ['ipvs:\n a: 1\n  b: 2\n', 4],
    ['mode: "ipvs\n', 4],
    ["mode: 'ipvs\n", 4],
    ['ipvs:\n  a: 1\n b: 2\n', 5],
    ['- a\n', 3],
    ['a: "b" c\n', 3],
    ['mode: ipvs\n}\n', 4],
    ['mode ipvs\n', 3],
    ['key\nmode: ipvs\n', 3],
    ['a: [1, 2\nb: 3\n', 4],
    ['a: {b: 1]\n', 3],
    ['a: ]\n', 3],
    ['a: [,]\n', 3],
    ['a: @foo\n', 3],
    ['ipvs:\n\tscheduler: rr\n', 4],
    ['\tmode: ipvs\n', 3],
    ['a: "\\q"\n', 3],
    ['a: >x\n', 3],
    [`a: >${'x'.repeat(10_000)}\n`, 3],
    ['a: - b\n', 3],
    ['a: *x\n', undefined],
    [`a: *${'x'.repeat(10_000)}\n`, undefined],
    ['a: &a [*a]\n', undefined],
    ['<<: 5\n', undefined],
    ['a: "\u0007"\n', undefined],
  ]
  for (const [text, line] of rows) {
    const error = errorOf(HEAD + text)
    assert.match(error, /^yaml: [^\n]{10,200}$/, text)
    assert.equal(/^yaml: line (\d+): /.exec(error)?.[1], line?.toString(), `${text}${error}`)
  }
})

test('loadConfiguration refuses broken JSON', () => {
  const rows: readonly string[] = [
    '{',
    '{"a":nu',
    '{"a":"\\u12',
    '{"a":"x',
    '{"a":1}x',
    '{"a":01}',
    '{"a":tru}',
    "{'a':1}",
    '{"a":"\\x"}',
    '{"a" 1}',
    '{"a":[1 2]}',
    '{"a":"\t"}',
    '{a: 1}',
    '{"a":1,}',
    '{"mode": \n x}',
  ]
  for (const text of rows) assert.match(errorOf(text), /^json: [^\n]{10,200}$/, text)
})

test('loadConfiguration refuses a file that is made to exhaust memory', () => {
  const levels = Array.from({ length: 12 }, (_, level) => {
    const inner = level === 0 ? '"lol"' : `*a${level - 1}`
    return `a${level}: &a${level} [${Array.from({ length: 10 }, () => inner).join(', ')}]\n`
  })
  assert.match(errorOf(HEAD + levels.join('')), /^yaml: Excessive alias count/)
  const anchors = Array.from({ length: 2000 }, (_, index) => `&a${index} 1`).join(', ')
  const aliases = Array.from({ length: 2000 }, (_, index) => `*a${index}`).join(', ')
  assert.equal(errorOf(`${HEAD}a: [${anchors}]\nb: [${aliases}]\n`), 'yaml: more than 1000 aliases')
  assert.match(errorOf(`${HEAD}a: ${'['.repeat(100_000)}\n`), /^yaml: /)
  assert.match(errorOf(`{"a":${'['.repeat(100_000)}`), /^json: /)
  assert.equal(errorOf(`{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`), 'yaml: too deep')
  const large = `${HEAD}${'# a line of a comment that says nothing\n'.repeat(270_000)}`
  assert.match(errorOf(large), /^the file has more than 262144 bytes/)
})

test('loadConfiguration finds the mistake in a long list, which is not nested deeply', () => {
  const addresses = Array.from({ length: 10_000 }, (_, index) => `10.0.${index >> 8}.${index & 255}`)
  // A colon in place of each comma, and no comma but no colon either.
  const error = /^yaml: line \d: /
  assert.match(errorOf(`${HEAD}ipvs: {}\nnodePortAddresses: [${addresses.join(': ')}]\nmode: ipvs\n`), error)
  assert.match(errorOf(`${HEAD}nodePortAddresses: [${addresses.join(', ')}\nmode: ipvs\n`), error)
  assert.equal(errorOf(`${HEAD}a: [${'[1], '.repeat(3_000)}${'['.repeat(20_000)}\n`), 'yaml: too deep')
})

const advice = (text: string): string | undefined => {
  const result = loadConfiguration(text, 'c.yaml')
  return 'errors' in result ? result.advice : 'accepted'
}

test('loadConfiguration says what to do with a ConfigMap, and with a configuration that is not the first document', () => {
  const configMap = (data: object, metadata: object = { name: 'kube-proxy', namespace: 'kube-system' }): string =>
    JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data })
  const start = 'The file is the ConfigMap around a configuration; --config takes the text of its key'
  assert.equal(
    advice(configMap({ 'a.conf': 'x', 'config.conf': HEAD })),
    String.raw`${start} "config.conf" alone: kubectl -n kube-system get configmap kube-proxy -o jsonpath='{.data.config\.conf}'`,
  )
  assert.match(advice(configMap({ 'config.yaml': HEAD })) ?? '', /key "config\.yaml" alone: kubectl/)
  // Without a configuration inside the usual key is named, and names that a shell reads are not.
  assert.equal(advice(configMap({}, { name: "a'; rm -rf /" })), `${start} "config.conf" alone`)
  assert.equal(advice('apiVersion: v1\nkind: ConfigMap\ndata: 7\nmetadata: [1]\n'), `${start} "config.conf" alone`)
  const kubelet = 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n'
  const move = (count: number): string =>
    `The file has ${count} documents, of which only the first counts: put the KubeProxyConfiguration first, or into a file of its own.`
  assert.equal(advice(`${kubelet}---\n${HEAD}`), move(2))
  assert.equal(advice(`${kubelet}---\na: [\n---\n${HEAD}`), move(3))
  assert.equal(advice(`${kubelet}---\na: &a [*a]\n`), undefined)
  assert.equal(advice(kubelet), undefined)
  assert.equal(advice(HEAD), 'accepted')
})

test('loadConfiguration reports at most a hundred mistakes of one kind', () => {
  const unknown = loadConfiguration(
    HEAD + Array.from({ length: 20_000 }, (_, index) => `k${index}: b\n`).join(''),
    'c.yaml',
  )
  assert.ok('warnings' in unknown)
  assert.equal(unknown.warnings.length, 100)
  const repeated = loadConfiguration(`${HEAD}mode: ipvs\n${'clusterCIDR: 10.0.0.0/8\n'.repeat(5_000)}`, 'c.yaml')
  assert.ok('warnings' in repeated)
  assert.equal(repeated.warnings.length, 100)
  const error = errorOf(
    `${HEAD}nodePortAddresses: [${Array.from({ length: 20_000 }, (_, index) => `a${index}`).join()}]\n`,
  )
  assert.match(
    error,
    /NodePortAddresses\[99\]: Invalid value: "a99": must be a valid CIDR or one of the keywords 'primary', 'localhost', 'all', and 19900 more\]$/,
  )
})

test('loadConfiguration does not print all of a long file of another kind', () => {
  const error = errorOf(`apiVersion: v1\nkind: ${'x'.repeat(200_000)}\n`)
  assert.match(error, /^expected kind "KubeProxyConfiguration" .* received "xxx/)
  assert.ok(error.length < 500)
})

test('decodeConfigurationFile refuses bytes that are not UTF-8, and endless files', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-bytes-'))
  const path = join(folder, 'c.yaml')
  const refusal = async (bytes: Uint8Array): Promise<string> => {
    writeFileSync(path, bytes)
    const result = await decodeConfigurationFile(path)
    assert.ok('errors' in result)
    assert.equal(result.errors.length, 1)
    return result.errors[0]?.message ?? ''
  }
  try {
    const decode = 'failed complete: failed to decode: '
    for (const bytes of [
      [0x61, 0xff],
      [0xc3, 0xa4, 0xc3, 0x28],
    ])
      assert.equal(await refusal(Buffer.from(bytes)), `${decode}the file is not UTF-8`)
    const elf = Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0, 0])
    assert.equal(await refusal(elf), `${decode}yaml: control characters are not allowed`)
    for (const fill of ['a: b\n', 0])
      assert.match(await refusal(Buffer.alloc(10_000_000, fill)), /the file has more than 262144 bytes/)
    const endless = await decodeConfigurationFile('/dev/zero')
    assert.ok('errors' in endless)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
