/** The whole daemon against the tests' API server, with its faults. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ApiServer } from '../../dev/api-server/server.ts'
import { JSON_WIRE, PROTOBUF_WIRE } from '../../dev/api-server/wire.ts'
import { Workbench } from '../support/daemon.ts'
import { node, service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually, until } from '../support/deadline.ts'

const WEB_TABLE = ['-A -t 10.96.0.1:80 -s rr', '-a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 1']
let server: ApiServer
let bench: Workbench

beforeEach(async () => {
  freshNode()
  server = new ApiServer()
  server.store.put('nodes', node(['10.0.2.15']))
  server.store.put('services', service('web', { clusterIP: '10.96.0.1' }))
  server.store.put('endpointslices', slice('web', ['10.244.0.1']))
  bench = new Workbench()
})
afterEach(async () => {
  await bench.close()
  await server.close()
})

/** Starts the daemon with a kubeconfig for the server, and more of clientConnection. */
async function start(connection: object = {}) {
  const url = server.url === '' ? await server.listen() : server.url
  const kubeconfig = `${bench.directory}/kubeconfig`
  const cluster = { server: url, 'insecure-skip-tls-verify': true }
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    }),
  )
  return bench.startOnApi(kubeconfig, connection)
}

/** The content types of every list and watch. */
const answeredIn = (): (string | undefined)[] => {
  const reads = server.requests.filter(({ verb }) => verb === 'list' || verb === 'watch')
  return [...new Set(reads.map(({ wire }) => wire?.contentType))]
}

const tableIs = (lines: readonly string[], deadlineMs = 40_000) =>
  eventually(() => assert.deepEqual(virtualServers(), lines.toSorted()), deadlineMs)

describe('daemon on the API server', () => {
  it('writes the listed objects and follows their changes', async () => {
    await start()
    await tableIs(WEB_TABLE)
    server.store.put('endpointslices', slice('web', ['10.244.0.1', '10.244.0.2']))
    await tableIs([...WEB_TABLE, '-a -t 10.96.0.1:80 -r 10.244.0.2:8080 -m -w 1'])
    server.store.delete('services', 'demo/web')
    await tableIs([])
    await eventually(() => assert.deepEqual(boundAddresses(), []))
    assert.deepEqual(answeredIn(), [PROTOBUF_WIRE.contentType])
  })

  it('follows the labels of all Nodes while a Service has weights by label, and asks for their metadata only', async () => {
    const put = (annotations: Readonly<Record<string, string>>): void => {
      server.store.put('services', service('web', { clusterIP: '10.96.0.1' }, { metadata: { annotations } }))
    }
    const label = (pool: string): void =>
      void server.store.put('nodes', node([], { metadata: { name: 'node1', labels: { pool, other: 'x' } } }))
    const weightIs = (weight: number, scheduler = 'wlc') =>
      tableIs([`-A -t 10.96.0.1:80 -s ${scheduler}`, `-a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w ${weight}`])
    const endpoint = { addresses: ['10.244.0.1'], conditions: { ready: true }, nodeName: 'node1' }
    server.store.put('endpointslices', slice('web', [], { endpoints: [endpoint] }))
    label('gold')
    put({ 'kube-ipvs.io/scheduler': 'wlc', 'kube-ipvs.io/weights': 'node-label:pool=gold=5,other=2' })
    await start()
    await weightIs(5)
    const asked = server.requests.filter(({ kind, query }) => kind === 'nodes' && query.get('fieldSelector') === null)
    assert.equal(asked.length, 1)
    assert.match(String(asked[0]?.headers.accept), /as=PartialObjectMetadata;/)
    label('silver')
    await weightIs(2)
    label('gold')
    await weightIs(5)
    put({})
    await weightIs(1, 'rr')
  })

  it('keeps the table through an outage of the API server and catches up after it', async () => {
    await start()
    await tableIs(WEB_TABLE)
    server.inject({ times: 1000, action: { kind: 'status', status: 503 } })
    const before = server.requests.length
    server.resetConnections()
    server.store.put('endpointslices', slice('web', ['10.244.0.9']))
    await until('a refused request of each kind', () => server.requests.length >= before + 3)
    assert.deepEqual(virtualServers(), WEB_TABLE.toSorted())
    // The table is not only unchanged: drift is still repaired.
    sh('ipvsadm -d -t 10.96.0.1:80 -r 10.244.0.1:8080')
    await tableIs(WEB_TABLE)
    server.faults.length = 0
    await eventually(
      () => assert.ok(virtualServers().includes('-a -t 10.96.0.1:80 -r 10.244.0.9:8080 -m -w 1')),
      40_000,
    )
  })

  it('removes nothing after a restart until every kind is listed', async () => {
    const daemon = await start()
    await tableIs(WEB_TABLE)
    await bench.stop(daemon)
    server.inject({ kind: 'endpointslices', times: 1000, action: { kind: 'status', status: 500 } })
    server.store.delete('services', 'demo/web')
    const refused = (): number => server.requests.filter(({ kind }) => kind === 'endpointslices').length
    const before = refused()
    await start()
    await until('two refused requests', () => refused() >= before + 2)
    assert.deepEqual([virtualServers(), boundAddresses()], [WEB_TABLE.toSorted(), ['10.96.0.1/32']])
    server.faults.length = 0
    await tableIs([], 40_000)
  })

  it('believes a complete list, also an empty one', async () => {
    const daemon = await start()
    await tableIs(WEB_TABLE)
    await bench.stop(daemon)
    for (const kind of ['services', 'endpointslices'] as const)
      for (const key of server.store.objects[kind].keys()) server.store.delete(kind, key)
    await start()
    await tableIs([], 40_000)
    assert.deepEqual(boundAddresses(), [])
  })

  it('ignores a broken object and serves the others', async () => {
    server.store.put('services', {
      metadata: { name: 'odd', namespace: 'demo' },
      spec: { clusterIP: '10.96.0.7', clusterIPs: 'x', ports: [{ port: 'http' }, { port: 99999 }, 7] },
    })
    server.store.put('endpointslices', {
      metadata: { name: 'odd', namespace: 'demo', labels: { 'kubernetes.io/service-name': 'web' } },
      addressType: 'IPv4',
      endpoints: 7,
      ports: {},
    })
    // Only JSON can express this.
    await start({ contentType: JSON_WIRE.contentType })
    await tableIs(WEB_TABLE)
    await eventually(() => assert.match(bench.log, /Problem with an object.*demo\/odd/))
    assert.deepEqual(answeredIn(), [JSON_WIRE.contentType])
  })

  it('serves a Service with 1,000 ports and a slice with 1,000 endpoints', async () => {
    const ports = Array.from({ length: 1000 }, (_, index) => ({ name: `p${index}`, protocol: 'TCP', port: index + 1 }))
    server.store.put('services', service('ports', { clusterIP: '10.96.0.2', ports }))
    server.store.put('services', service('many', { clusterIP: '10.96.0.3' }))
    const addresses = Array.from({ length: 1000 }, (_, index) => `10.245.${index >> 8}.${index & 255}`)
    server.store.put('endpointslices', slice('many', addresses))
    await start()
    await eventually(() => assert.equal(virtualServers().length, WEB_TABLE.length + 1000 + 1001), 40_000)
  })

  it('logs that the API server cannot be reached, and waits', async () => {
    await server.listen()
    await server.close()
    await start()
    await eventually(() =>
      assert.match(bench.log, /^E.*"Failed to watch" err="failed to list \*v1\.Node: .*ECONNREFUSED/m),
    )
    assert.deepEqual(virtualServers(), [])
  })
})
