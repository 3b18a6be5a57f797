/** Broken and hostile files: each gives exactly one error, quickly, in kube-proxy's words where it has some. */
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

test('loadConfiguration refuses broken YAML in the words of kube-proxy 1.37.2', () => {
  const rows: readonly (readonly [text: string, error: string])[] = [
    ['mode: ipvs: x\n', 'line 3: mapping values are not allowed in this context'],
    ['  a: b\n', 'line 3: mapping values are not allowed in this context'],
    ['ipvs:\n a: 1\n  b: 2\n', 'line 5: mapping values are not allowed in this context'],
    ['mode: "ipvs\n', 'line 4: found unexpected end of stream'],
    ["mode: 'ipvs\n", 'line 4: found unexpected end of stream'],
    ['ipvs:\n  a: 1\n b: 2\n', 'line 4: did not find expected key'],
    ['- a\n', 'line 2: did not find expected key'],
    ['a: "b" c\n', 'line 2: did not find expected key'],
    ['mode: ipvs\n}\n', 'line 3: did not find expected key'],
    ['mode ipvs\n', "line 4: could not find expected ':'"],
    ['key\nmode: ipvs\n', "line 4: could not find expected ':'"],
    ['a: [1, 2\nb: 3\n', "line 3: did not find expected ',' or ']'"],
    ['a: {b: 1]\n', "line 2: did not find expected ',' or '}'"],
    ['a: ]\n', 'line 2: did not find expected node content'],
    ['a: [,]\n', 'line 2: did not find expected node content'],
    ['a: @foo\n', 'line 3: found character that cannot start any token'],
    ['ipvs:\n\tscheduler: rr\n', 'line 4: found character that cannot start any token'],
    ['\tmode: ipvs\n', 'line 3: found a tab character that violates indentation'],
    ['a: "\\q"\n', 'line 3: found unknown escape character'],
    ['a: >x\n', 'line 3: did not find expected comment or line break'],
    ['a: - b\n', 'line 3: block sequence entries are not allowed in this context'],
    ['a: *x\n', "unknown anchor 'x' referenced"],
    ['a: &a [*a]\n', "anchor 'a' value contains itself"],
    ['<<: 5\n', 'map merge requires map or sequence of maps as the value'],
    ['a: "\u0007"\n', 'control characters are not allowed'],
  ]
  for (const [text, error] of rows) assert.equal(errorOf(HEAD + text), `yaml: ${error}`, text)
})

test('loadConfiguration refuses broken JSON in the words of kube-proxy 1.37.2', () => {
  const rows: readonly (readonly [text: string, error: string])[] = [
    ['{', 'unexpected end of JSON input'],
    ['{"a":nu', "invalid character ' ' in literal null (expecting 'l')"],
    ['{"a":"\\u12', String.raw`invalid character ' ' in \u hexadecimal character escape`],
    ['{"a":"x', 'unexpected end of JSON input'],
    ['{"a":1}x', "invalid character 'x' after top-level value"],
    ['{"a":01}', "invalid character '1' after object key:value pair"],
    ['{"a":tru}', "invalid character '}' in literal true (expecting 'e')"],
    ["{'a':1}", String.raw`invalid character '\'' looking for beginning of object key string`],
    ['{"a":"\\x"}', "invalid character 'x' in string escape code"],
    ['{"a" 1}', "invalid character '1' after object key"],
    ['{"a":[1 2]}', "invalid character '2' after array element"],
    ['{"a":"\t"}', String.raw`invalid character '\t' in string literal`],
    ['{a: 1}', "invalid character 'a' looking for beginning of object key string"],
  ]
  for (const [text, error] of rows)
    assert.equal(errorOf(text), `couldn't get version/kind; json parse error: ${error}`, text)
})

test('loadConfiguration refuses a file that is made to exhaust memory', () => {
  const levels = Array.from({ length: 12 }, (_, level) => {
    const inner = level === 0 ? '"lol"' : `*a${level - 1}`
    return `a${level}: &a${level} [${Array.from({ length: 10 }, () => inner).join(', ')}]\n`
  })
  assert.equal(errorOf(HEAD + levels.join('')), 'yaml: document contains excessive aliasing')
  assert.match(errorOf(`${HEAD}a: ${'['.repeat(100_000)}\n`), /^yaml: /)
  assert.match(errorOf(`{"a":${'['.repeat(100_000)}`), /exceeded max depth$/)
  const large = `${HEAD}${'# a line of a comment that says nothing\n'.repeat(270_000)}`
  assert.match(errorOf(large), /^the file has more than 262144 bytes/)
})

test('loadConfiguration finds the mistake in a long list, which is not nested deeply', () => {
  const addresses = Array.from({ length: 10_000 }, (_, index) => `10.0.${index >> 8}.${index & 255}`)
  // A colon in place of each comma, and no comma but no colon either.
  const error = "yaml: line 3: did not find expected ',' or ']'"
  assert.equal(errorOf(`${HEAD}ipvs: {}\nnodePortAddresses: [${addresses.join(': ')}]\nmode: ipvs\n`), error)
  assert.equal(errorOf(`${HEAD}nodePortAddresses: [${addresses.join(', ')}\nmode: ipvs\n`), error)
  assert.equal(
    errorOf(`${HEAD}a: [${'[1], '.repeat(3_000)}${'['.repeat(20_000)}\n`),
    'yaml: exceeded max depth of 10000',
  )
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

test('loadConfiguration does not print all of a long file without a kind', () => {
  const error = errorOf(`mode: ipvs\n# ${'x'.repeat(200_000)}\n`)
  assert.ok(error.startsWith("Object 'Kind' is missing in 'mode: ipvs\n# xxx"))
  assert.ok(error.length < 5_000)
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
    assert.equal(await refusal(Buffer.from([0x61, 0xff])), `${decode}yaml: invalid leading UTF-8 octet`)
    assert.equal(await refusal(Buffer.from([0xc3, 0xa4, 0xc3, 0x28])), `${decode}yaml: invalid trailing UTF-8 octet`)
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
