import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { endpointAddress, makeNode, makeService, makeSlice } from '../../../dev/api-server/generate.ts'
import { ApiServer, type ApiServerOptions } from '../../../dev/api-server/server.ts'
import type { Node } from '../../../src/service/objects.ts'
import { ApiError } from '../../../src/watch/api/api-error.ts'
import { KubeAccess, type KubeConfigOptions } from '../../../src/watch/api/kube-config.ts'
import { type ApiSourceOptions, openApiSource, openNodeLabels, Outage } from '../../../src/watch/reflect/api-source.ts'
import type { ReflectorTimes } from '../../../src/watch/reflect/reflector-times.ts'
import { issueCertificate, makeAuthority } from '../../../dev/api-server/certificate.ts'
import { until } from '../../support/deadline.ts'
import { node } from '../../support/manifests.ts'
import { endpoint, slice, slicePort } from '../../support/objects.ts'
import { recordingLog, type RecordingLog } from '../../support/recording-log.ts'
import { type RecordingSink, recordingSink } from '../recording-sink.ts'

const TIMES: ReflectorTimes = { backoffFirstMs: 10, backoffMaxMs: 100 }

interface Opened {
  readonly sink: RecordingSink
  readonly log: RecordingLog
}

type Options = Pick<KubeConfigOptions, 'kubeconfig' | 'master'> & Pick<ApiSourceOptions, 'observer'>

function open(t: TestContext, { observer, ...config }: Options): Opened {
  const sink = recordingSink()
  const log = recordingLog()
  const source = openApiSource({
    access: new KubeAccess(config),
    nodeName: 'node0',
    version: '1.2.3',
    observer,
    sink,
    log,
    times: TIMES,
  })
  t.after(() => source.close())
  return { sink, log }
}

async function serve(t: TestContext, options: ApiServerOptions = {}): Promise<ApiServer> {
  const server = new ApiServer({ bookmarkMs: 50, ...options })
  await server.listen()
  t.after(() => server.close())
  return server
}

async function kubeconfigFile(t: TestContext, cluster: object, user: object): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'kube-ipvs-source-'))
  t.after(() => rm(dir, { recursive: true }))
  const text = JSON.stringify({
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
    clusters: [{ name: 'k', cluster }],
    users: [{ name: 'u', user }],
  })
  await writeFile(join(dir, 'kubeconfig.conf'), text)
  return join(dir, 'kubeconfig.conf')
}

const allListed = ({ sink }: Opened): Promise<void> =>
  until('all listed', () => sink.calls.filter((call) => call.startsWith('listed')).length === 3)

test('openApiSource delivers objects of all three kinds', async (t) => {
  const server = await serve(t)
  server.store.put('nodes', makeNode('node0'))
  server.store.put('nodes', makeNode('node1'))
  for (let index = 0; index < 200; index++) {
    server.store.put('services', makeService(index))
    const addresses = [0, 1, 2].map((endpoint) => endpointAddress(index, endpoint, 3, 0))
    server.store.put('endpointslices', makeSlice(index, addresses))
  }
  const opened = open(t, { master: server.url })
  await allListed(opened)
  assert.equal(opened.sink.state.size, 401)
  const expected = slice({
    namespace: 'bench-1',
    name: 'service-199-x7k2p',
    serviceName: 'service-199',
    family: 'IPv4',
    triggeredAtMs: Date.parse('2026-11-20T16:19:17Z'),
    ports: [slicePort({ name: 'http', port: 8080 })],
    endpoints: [0, 1, 2].map((index) =>
      endpoint({
        address: endpointAddress(199, index, 3, 0),
        nodeName: `worker-${(199 + index) % 100}`,
        zone: `zone-${'abc'[(199 + index) % 3]}`,
      }),
    ),
  })
  assert.deepEqual(opened.sink.state.get('endpointslices bench-1/service-199-x7k2p'), expected)
  assert.deepEqual(
    opened.log.lines.filter(({ level }) => level !== 'info'),
    [],
  )
  assert.equal(server.requests[0]?.headers['user-agent'], 'kube-ipvs/1.2.3')
})

test('openApiSource uses TLS with client certificates and a token that rotates', async (t) => {
  const authority = makeAuthority('test-ca')
  const client = issueCertificate(authority, 'kube-proxy')
  const tokens = new Set(['first'])
  const tls = { ...issueCertificate(authority, 'server'), clientCa: authority.cert }
  const server = await serve(t, { tls, tokens })
  server.store.put('nodes', makeNode('node0'))
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  const path = await kubeconfigFile(
    t,
    { server: server.url, 'certificate-authority-data': base64(authority.cert) },
    {
      tokenFile: 'token',
      'client-certificate-data': base64(client.cert),
      'client-key-data': base64(client.key),
    },
  )
  const tokenFile = join(path, '../token')
  await writeFile(tokenFile, 'first\n')
  const opened = open(t, { kubeconfig: path })
  await allListed(opened)
  assert.deepEqual([server.watchCount, server.connectionCount], [3, 1])

  // The old token expires, every watch breaks, and the file has a new token: one refusal, then the watches continue.
  tokens.clear()
  tokens.add('second')
  await writeFile(tokenFile, 'second\n')
  server.store.put('nodes', makeNode('node0', '172.18.0.9'))
  server.resetConnections()
  await until('the new address', () => JSON.stringify([...opened.sink.state]).includes('172.18.0.9'))
  await until('three watches', () => server.watchCount === 3)
})

test('openApiSource refuses a server with a certificate of another authority', async (t) => {
  const server = await serve(t, { tls: issueCertificate(makeAuthority('other-ca'), 'server') })
  const { cert } = makeAuthority('test-ca')
  const path = await kubeconfigFile(
    t,
    { server: server.url, 'certificate-authority-data': Buffer.from(cert).toString('base64') },
    {},
  )
  const { log, sink } = open(t, { kubeconfig: path })
  await until('an error', () => log.lines.some(({ level }) => level === 'error'))
  assert.equal(server.requests.length, 0)
  assert.deepEqual(sink.calls, [])
})

test('openApiSource logs an outage at once, one line for each kind, and recovers later', async (t) => {
  const server = new ApiServer()
  await server.listen()
  const { url } = server
  await server.close()
  let requests = 0
  const observer = { requested: () => requests++, received: () => undefined }
  const opened = open(t, { master: url, observer })
  await until('four tries of each kind', () => requests >= 12)
  assert.deepEqual(opened.log.lines.map(({ level, fields }) => `${level} ${fields['code']} ${fields['type']}`).sort(), [
    'error api-unreachable *v1.EndpointSlice',
    'error api-unreachable *v1.Node',
    'error api-unreachable *v1.Service',
  ])
  await serve(t, { port: Number(new URL(url).port) })
  await allListed(opened)
  await until('recovery', () => opened.log.lines.filter(({ level }) => level === 'info').length === 3)
})

test('openApiSource logs what is wrong with a kubeconfig', async (t) => {
  const opened = open(t, { kubeconfig: '/no/such/kubeconfig' })
  await until('an error', () => opened.log.lines.length > 0)
  assert.match(
    String(opened.log.lines[0]?.fields['error']),
    /^failed to list \*v1\.\w+: \/no\/such\/kubeconfig: cannot be read/,
  )
})

const ERROR = new ApiError('api-unreachable', 'connect ECONNREFUSED 127.0.0.1:6443')

test('Outage logs each kind at once, then once a minute, and logs the recovery', () => {
  const log = recordingLog()
  let now = 1_000_000
  const outage = new Outage(log, () => now)
  for (let second = 0; second <= 150; second++, now += 1000) {
    outage.failed('services', ERROR, 800)
    if (second >= 30) outage.failed('nodes', ERROR, 800)
  }
  outage.recovered('services')
  outage.recovered('services')
  outage.recovered('endpointslices')
  assert.deepEqual(
    log.lines.map(({ level, fields }) => [level, fields['type'], fields['forSeconds'] ?? fields['afterSeconds']]),
    [
      ['error', '*v1.Service', 0],
      ['error', '*v1.Node', 0],
      ['error', '*v1.Service', 60],
      ['error', '*v1.Node', 60],
      ['error', '*v1.Service', 120],
      ['error', '*v1.Node', 120],
      ['info', '*v1.Service', 151],
    ],
  )
  const [first] = log.lines
  assert.equal(first?.message, 'Failed to watch')
  assert.equal(first?.fields['error'], `failed to list *v1.Service: ${ERROR.message}`)
  assert.equal(first?.fields['code'], 'api-unreachable')
})

test('openNodeLabels follows these labels of all Nodes, and asks for metadata only', async (t) => {
  const server = await serve(t)
  const put = (name: string, labels: object) => server.store.put('nodes', node([], { metadata: { name, labels } }))
  put('node0', { pool: 'gold', other: 'x' })
  put('node1', { other: 'x' })
  const sink = recordingSink()
  const log = recordingLog()
  const access = new KubeAccess({ master: server.url })
  const labels = new Set(['pool'])
  const source = openNodeLabels({ access, version: '1.2.3', labels, sink, log, observer: undefined, times: TIMES })
  t.after(() => source.close())
  await until('the list', () => sink.calls.includes('listed nodes'))
  const labelsOf = (name: string): unknown => (sink.state.get(`nodes ${name}`) as Node | undefined)?.labels
  assert.deepEqual([labelsOf('node0'), labelsOf('node1')], [{ pool: 'gold' }, undefined])
  put('node1', { pool: 'silver' })
  await until('the change', () => labelsOf('node1') !== undefined)
  server.store.delete('nodes', 'node0')
  await until('the removal', () => !sink.state.has('nodes node0'))
  const [request] = server.requests
  assert.equal(request?.headers.accept, 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json')
  assert.equal(request.query.get('fieldSelector'), null)
})

test('openNodeLabels asks for a list of metadata where lists do not stream, and for whole objects where metadata is refused', async (t) => {
  const server = await serve(t)
  server.streamingList = 'forbidden'
  server.store.put('nodes', node([], { metadata: { labels: { pool: 'gold' } } }))
  server.inject({ kind: 'nodes', verb: 'list', action: { kind: 'status', status: 406 } })
  const sink = recordingSink()
  const access = new KubeAccess({ master: server.url })
  const labels = new Set(['pool'])
  const log = recordingLog()
  const source = openNodeLabels({ access, version: '1.2.3', labels, sink, log, observer: undefined, times: TIMES })
  t.after(() => source.close())
  await until('the list', () => sink.calls.includes('listed nodes'))
  const accepted = server.requests.filter(({ verb }) => verb === 'list').map(({ headers }) => headers.accept)
  assert.deepEqual(accepted, [
    'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json',
    'application/json',
  ])
})
