import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatProblem } from '../../../src/values/errors.ts'
import { createIntern } from '../../../src/watch/objects/findings.ts'
import { parseManifestFile } from '../../../src/watch/manifests/manifest-file.ts'

async function read(text: string): Promise<{ keys: string[]; problems: string[] }> {
  const { objects, problems } = await parseManifestFile('web.yaml', text, 'node0', createIntern())
  return {
    keys: objects.map(({ change, line }) => `${change.kind} ${change.key} ${line}`),
    problems: problems.map(formatProblem),
  }
}

const SERVICE = `apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  clusterIP: 10.96.0.10
  ports:
    - port: 80
`
const SLICE = `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: demo, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.244.0.1]}]
`

test('parseManifestFile reads several documents and puts objects without a namespace into default', async () => {
  assert.deepEqual(await read(`# all of it\n---\n${SERVICE}---\n---\n${SLICE}`), {
    keys: ['services default/web 3', 'endpointslices demo/web-1 13'],
    problems: [],
  })
})

test('parseManifestFile reads lists of every kind', async () => {
  const item = { metadata: { name: 'web' }, spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }
  const whole = { apiVersion: 'v1', kind: 'Service', ...item }
  const rows = [
    { apiVersion: 'v1', kind: 'List', items: [whole] },
    { apiVersion: 'v1', kind: 'ServiceList', items: [item] },
    { apiVersion: 'v1', kind: 'List', items: [{ apiVersion: 'v1', kind: 'ServiceList', items: [item] }] },
    { apiVersion: 'v1', kind: 'List', items: [whole, { apiVersion: 'v1', kind: 'Secret' }] },
  ]
  for (const json of rows)
    assert.deepEqual(
      (await read(JSON.stringify(json, undefined, '\t'))).keys.map((key) => key.split(' ')[1]),
      ['default/web'],
    )
})

test('parseManifestFile ignores other kinds, other nodes and what the selectors leave out', async () => {
  const rows = [
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n',
    'apiVersion: apps/v1\nkind: Service\nmetadata: {name: x}\n',
    'apiVersion: v1\nkind: Node\nmetadata: {name: node1}\n',
    SERVICE.replace('10.96.0.10', 'None'),
    SERVICE.replace('  name: web', '  name: web\n  labels: {service.kubernetes.io/service-proxy-name: x}'),
    SLICE.replace('labels: {', 'labels: {service.kubernetes.io/headless: "", '),
    'apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {type: ExternalName, externalName: y}\n',
    '',
    '# nothing\n',
    '---\n---\n',
  ]
  for (const text of rows) assert.deepEqual(await read(text), { keys: [], problems: [] }, text)
})

test('parseManifestFile reads the Node with the name of this node', async () => {
  assert.deepEqual((await read('apiVersion: v1\nkind: Node\nmetadata: {name: node0}\n')).keys, ['nodes node0 1'])
})

test('parseManifestFile reads the labels of other Nodes, and nothing that is wrong with them', async () => {
  const text = 'apiVersion: v1\nkind: Node\nmetadata: {name: node1, labels: {pool: gold}}\nspec: {taints: 7}\n'
  const { objects, problems } = await parseManifestFile('node.yaml', text, 'node0', createIntern())
  const [object] = objects
  assert.ok(object?.change.kind === 'nodes')
  assert.deepEqual([object.change.key, object.change.value?.labels, problems], ['node1', { pool: 'gold' }, []])
})

test('parseManifestFile names the line of each problem', async () => {
  const rows: [string, string[], string[]][] = [
    [
      SERVICE.replace('port: 80', 'port: "80"'),
      [],
      ['web.yaml:8: spec.ports[0].port: must be a number from 1 to 65535, not "80"'],
    ],
    [
      `${SERVICE}    - port: 99999\n      name: x\n`,
      ['services default/web 1'],
      ['web.yaml:9: spec.ports[1].port: must be a number from 1 to 65535, not 99999'],
    ],
    [
      SERVICE.replace('  clusterIP: 10.96.0.10\n', ''),
      [],
      ['web.yaml:6: spec.clusterIP: must be given: no API server is there to assign one'],
    ],
    [SERVICE.replace('  name: web\n', '  labels: {}\n'), [], ['web.yaml:4: metadata.name: must name the object']],
    [SERVICE.replace('name: web', 'name: yes'), [], ['web.yaml:4: metadata.name: must name the object']],
    [SERVICE.replace('kind: Service', 'kind: 7'), [], ['web.yaml:1: kind: must be text, not 7']],
    [SERVICE.replace('apiVersion: v1\n', ''), [], ['web.yaml:1: apiVersion: must be text, not nothing']],
    [
      SLICE.replace('kubernetes.io/service-name: web', 'a: b'),
      [],
      ['web.yaml:3: metadata.labels["kubernetes.io/service-name"]: must name the Service of this slice'],
    ],
    ['- a\n- b\n', [], ['web.yaml:1: must be an object, not a list']],
    ['just text\n', [], ['web.yaml:1: must be an object, not "just text"']],
    [
      `apiVersion: v1\nkind: List\nitems:\n- ${SERVICE.trim().replaceAll('\n', '\n  ')}\n- 7\n`,
      ['services default/web 4'],
      ['web.yaml:12: must be an object, not 7'],
    ],
    ['apiVersion: v1\nkind: List\nitems: {}\n', [], ['web.yaml:3: items: must be a list, not an object']],
    [
      `${SERVICE}---\n${SERVICE}`,
      ['services default/web 1'],
      ['web.yaml:10: service default/web is on line 1 already'],
    ],
  ]
  for (const [text, keys, problems] of rows) assert.deepEqual(await read(text), { keys, problems }, text)
})

test('parseManifestFile names the line of broken YAML and keeps the other documents', async () => {
  const rows = [
    ['spec: {a: [1\n', 2],
    ['a: b: c\n', 1],
    ['a: 1\na: 2\n', 2],
    ['a: "x\n', 1],
  ] as const
  for (const [broken, line] of rows) {
    const { keys, problems } = await read(`${SERVICE}---\n${broken}`)
    assert.deepEqual(keys, ['services default/web 1'])
    assert.equal(problems.length, 1)
    assert.match(problems[0] ?? '', new RegExp(`^web\\.yaml:(${line + 9}|${line + 10}): `), broken)
  }
})

test('parseManifestFile refuses aliases that expand without end', async () => {
  const levels = Array.from(
    { length: 9 },
    (_, level) => `a${level + 1}: &a${level + 1} [${'*a'.concat(`${level}, `).repeat(9)}]`,
  )
  const { problems } = await read(`a0: &a0 [x]\n${levels.join('\n')}\n`)
  assert.equal(problems.length, 1)
})

test('parseManifestFile reads a list with an anchor and an alias for each of very many Services', async () => {
  const items = Array.from({ length: 5_000 }, (_, index) => {
    const address = `10.96.${index >> 8}.${index & 255}`
    return `- apiVersion: v1
  kind: Service
  metadata: {name: s${index}, labels: &id${index} {app: a${index}}}
  spec: {clusterIP: ${address}, ports: [{port: 80}], selector: *id${index}}`
  })
  const text = `apiVersion: v1\nkind: List\nitems:\n${items.join('\n')}\n`
  const { objects, problems } = await parseManifestFile('web.yaml', text, 'node0', createIntern())
  assert.deepEqual([objects.length, problems], [5_000, []])
})

test('parseManifestFile takes time in proportion to the aliases of a document, whatever they lead to', async () => {
  const COUNT = 40_000
  const each = (text: (index: number) => string): string =>
    Array.from({ length: COUNT }, (_, index) => text(index)).join('')
  const texts: readonly [text: string, isRefused: boolean][] = [
    [`a: [${each((index) => `&a${index} 1, `)}]\nb: [${each((index) => `*a${index}, `)}]\n`, false],
    // An alias that an anchor contains.
    [`a: [${each((index) => `&a${index} 1, &b${index} [*a${index}], *b${index}, `)}]\n`, false],
    [`a: &a {}\nb: [${each(() => '*a, ')}]\n`, false],
    [`a: &a [${each(() => '[], ')}]\nb: [${each(() => '*a, ')}]\n`, true],
  ]
  for (const [text, isRefused] of texts) {
    const used = process.threadCpuUsage()
    const { problems } = await read(text)
    const { user, system } = process.threadCpuUsage(used)
    assert.equal(problems.length, isRefused ? 1 : 0, problems[0])
    // With the square of their number it would be more than half a minute.
    assert.ok(user + system < 10_000_000, `${(user + system) / 1000} ms for ${text.slice(0, 30)}`)
  }
})

test('parseManifestFile reads dates of YAML 1.1 as the time of creation', async () => {
  const text = SERVICE.replace('  name: web', '  name: web\n  creationTimestamp: 2026-11-20T16:19:17Z')
  const { objects } = await parseManifestFile('web.yaml', text, 'node0', createIntern())
  const value = objects[0]?.change.value
  assert.equal(value !== undefined && 'createdAtMs' in value && value.createdAtMs, Date.UTC(2026, 10, 20, 16, 19, 17))
})

test('parseManifestFile never throws on truncated or corrupt files', async () => {
  const text = `${SERVICE}---\n${SLICE}`
  for (let length = 0; length <= text.length; length++) await read(text.slice(0, length))
  await fc.assert(
    fc.asyncProperty(fc.nat(text.length), fc.string({ unit: 'binary', maxLength: 8 }), async (at, garbage) => {
      await read(text.slice(0, at) + garbage + text.slice(at))
    }),
    { numRuns: 500 },
  )
})

test('parseManifestFile never rejects, for fields of any type', async () => {
  const odd = [
    '{toString: 1, valueOf: 1}',
    '{}',
    '[[]]',
    '!!binary aGk=',
    '2026-11-20',
    '.nan',
    '!!set {a}',
    '!!omap [a: 1]',
  ]
  for (const value of odd)
    for (const field of ['apiVersion', 'kind', 'metadata', 'spec', 'name', 'clusterIP', 'ports', 'port', 'items']) {
      const text = SERVICE.replace(new RegExp(`(?<=^|\\s)${field}:.*`), `${field}: ${value}`)
      await read(text)
      await read(`${text}items: ${value}\n`)
    }
  assert.deepEqual((await read(SERVICE.replace('apiVersion: v1', 'apiVersion: {toString: 1, valueOf: 1}'))).problems, [
    'web.yaml:1: apiVersion: must be text, not an object',
  ])
  assert.deepEqual((await read(SERVICE.replace('kind: Service', 'kind: {toString: 1, valueOf: 1}'))).problems, [
    'web.yaml:1: kind: must be text, not an object',
  ])
})

test('parseManifestFile yields to the event loop between documents', async () => {
  const text = Array.from({ length: 400 }, (_, index) => SERVICE.replace('name: web', `name: web-${index}`)).join(
    '---\n',
  )
  let turns = 0
  let done = false
  const count = (): void => {
    turns++
    if (!done) setImmediate(count)
  }
  setImmediate(count)
  const { keys } = await read(text)
  done = true
  assert.equal(keys.length, 400)
  assert.ok(turns > 1, String(turns))
})

test('parseManifestFile refuses endpoint addresses that no workload can have', async () => {
  const refused = ['127.0.0.1', '169.254.169.254', '0.0.0.0', '255.255.255.255', '224.0.0.1', '239.1.1.1']
  const text = SLICE.replace('10.244.0.1', refused.join(']}, {addresses: [').concat(']}, {addresses: [10.244.0.1'))
  const { objects, problems } = await parseManifestFile('web.yaml', text, 'node0', createIntern())
  const value = objects[0]?.change.value
  assert.deepEqual(value !== undefined && 'endpoints' in value && value.endpoints.map(({ address }) => address), [
    '10.244.0.1',
  ])
  assert.deepEqual(
    problems.map(({ code, field }) => `${field}: ${code}`),
    refused.map((_, index) => `endpoints[${index}].addresses[0]: invalid-address`),
  )
  const ipv6 = SLICE.replace('IPv4', 'IPv6').replace(
    '[10.244.0.1]',
    "['::1']}, {addresses: ['fe80::1']}, {addresses: ['::']}, {addresses: ['ff02::1']}, {addresses: ['fd00::1']",
  )
  assert.equal((await parseManifestFile('web.yaml', ipv6, 'node0', createIntern())).problems.length, 4)
})

test('parseManifestFile leaves out VIPs that invalid source ranges would open to everyone', async () => {
  const vips = ['203.0.113.7', 'fd00:7::7']
  const rows: readonly (readonly [ranges: string, vips: readonly string[], problems: readonly string[]])[] = [
    ['[]', vips, []],
    ['[198.51.100.0/24]', vips, []],
    ['[198.51.100.0]', [], ['[0]', '']],
    ['198.51.100.0/24', [], ['', '']],
    ['[198.51.100.0/24, fd00::]', ['203.0.113.7'], ['[1]', '']],
    ['[198.51.100.0/24, fd00::, "fd00:1::/64"]', vips, ['[1]']],
  ]
  for (const [ranges, left, fields] of rows) {
    const status = `status: {loadBalancer: {ingress: [${vips.map((ip) => `{ip: '${ip}'}`).join()}]}}\n`
    const text = SERVICE.replace('  ports:', `  loadBalancerSourceRanges: ${ranges}\n  ports:`) + status
    const { objects, problems } = await parseManifestFile('web.yaml', text, 'node0', createIntern())
    const value = objects[0]?.change.value
    assert.deepEqual(value !== undefined && 'loadBalancerVips' in value && value.loadBalancerVips, left, ranges)
    assert.deepEqual(
      problems.map(({ field }) => field),
      fields.map((field) => `spec.loadBalancerSourceRanges${field}`),
      ranges,
    )
  }
})

test('parseManifestFile names the line of a long list with a mistake, which the reader has no stack for', async () => {
  const list = Array.from({ length: 20_000 }, (_, index) => `10.0.${index >> 8}.${index & 255}`)
  for (const text of [`- ${'['.repeat(20_000)}`, `a: 1\nb: [${list.join(': ')}]`])
    assert.deepEqual(
      (await read(`${SERVICE}---\n# a list\n\n${text}\n`)).problems.map((line) => line.replace(/: nests too.*/, '')),
      [`web.yaml:${SERVICE.split('\n').length + 3 + (text.startsWith('a') ? 1 : 0)}`],
    )
})

test('parseManifestFile refuses a repeated key, and reads a map of very many keys', async () => {
  assert.deepEqual((await read(`${SERVICE}metadata: {}\n`)).problems, [
    `web.yaml:${SERVICE.split('\n').length}: Map keys must be unique`,
  ])
  const labels = Array.from({ length: 100_000 }, (_, index) => `    k${index}: v\n`)
  const startMs = performance.now()
  const { keys, problems } = await read(SERVICE.replace('  name: web', `  labels:\n${labels.join('')}  name: web`))
  assert.deepEqual([keys.length, problems], [1, []])
  // With the square of the number it took minutes.
  assert.ok(performance.now() - startMs < 30_000)
})

test('parseManifestFile finds objects with endpoints that are not read, in lists too, and calls the file correct', async () => {
  const text =
    'apiVersion: v1\nkind: EndpointsList\nitems:\n  - metadata: {name: web, namespace: demo}\n  - kind: Endpoints\n    apiVersion: v1\n    metadata: {}\n'
  const { objects, problems, unread } = await parseManifestFile('web.yaml', text, 'node0', createIntern())
  assert.deepEqual([objects, problems], [[], []])
  assert.deepEqual(unread, [{ kind: 'Endpoints', service: 'demo/web', line: 4 }])
})
