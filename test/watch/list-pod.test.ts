/** The endpoints of a pod, asked for on demand: from the API server over real HTTP, and from a folder of manifests. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { ApiServer } from '../../dev/api-server/server.ts'
import { listPodFromApi } from '../../src/watch/api/list-pod.ts'
import { listPodFromManifests } from '../../src/watch/manifests/list-pod.ts'
import { slice } from '../support/manifests.ts'

const POD = { namespace: 'demo', name: 'web-1' }
/** A slice of Service NAME with one endpoint, which is this pod. */
const sliceOf = (name: string, pod: string, address: string, namespace = 'demo') =>
  slice(name, [], {
    metadata: { namespace },
    ports: [{ name: '', protocol: 'TCP', port: 8080 }],
    endpoints: [{ addresses: [address], targetRef: { kind: 'Pod', name: pod, namespace } }],
  })
/** Aborts a request of this test that takes long. */
const soon = (): AbortSignal => AbortSignal.timeout(20_000)

async function apiServer(t: TestContext): Promise<ApiServer> {
  const server = new ApiServer()
  await server.listen()
  t.after(() => server.close())
  return server
}
const clientOf = ({ url }: ApiServer) => ({
  access: { access: async () => ({ server: url, headers: {}, tls: {} }), invalidate: () => undefined },
  userAgent: 'test',
})

test('listPodFromApi reads every page of the namespace, and no other namespace', async (t) => {
  const server = await apiServer(t)
  for (let index = 0; index < 25; index++)
    server.store.put(
      'endpointslices',
      sliceOf(`s${index}`, index === 24 ? 'web-1' : `other-${index}`, `10.244.0.${index + 1}`),
    )
  server.store.put('endpointslices', sliceOf('elsewhere', 'web-1', '10.244.9.9', 'other'))
  const found = await listPodFromApi(clientOf(server), POD, soon())
  assert.deepEqual(found, { addresses: ['10.244.0.25'], endpoints: ['10.244.0.25:8080'] })
  assert.equal(server.requests.length, 3)
  assert.ok(server.requests.every(({ query }) => query.get('limit') === '10'))
})

test('listPodFromApi fails when the API server refuses, is away or is late', async (t) => {
  const server = await apiServer(t)
  server.faults.push({ fault: { kind: 'endpointslices', action: { kind: 'status', status: 403 } }, left: 1 })
  await assert.rejects(listPodFromApi(clientOf(server), POD, soon()))
  server.faults.push({ fault: { kind: 'endpointslices', action: { kind: 'hang' } }, left: 1 })
  await assert.rejects(listPodFromApi(clientOf(server), POD, AbortSignal.timeout(50)))
  await assert.rejects(
    listPodFromApi(
      {
        ...clientOf(server),
        access: {
          access: async () => ({ server: 'http://127.0.0.1:1', headers: {}, tls: {} }),
          invalidate: () => undefined,
        },
      },
      POD,
      soon(),
    ),
  )
})

test('listPodFromManifests finds the pod in documents and lists, and passes over files that are no YAML', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-pod-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const write = (name: string, ...objects: object[]): void =>
    writeFileSync(join(folder, name), objects.map((object) => JSON.stringify(object)).join('\n---\n'))
  write('a.yaml', sliceOf('a', 'web-2', '10.244.0.1'), sliceOf('b', 'web-1', '10.244.0.2'))
  write('b.json', { apiVersion: 'v1', kind: 'List', items: [sliceOf('c', 'web-1', '10.244.0.3')] })
  writeFileSync(join(folder, 'broken.yaml'), 'targetRef: [')
  writeFileSync(
    join(folder, 'bomb.yaml'),
    'a: &a [targetRef]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n',
  )
  const found = await listPodFromManifests(folder, POD, soon())
  assert.deepEqual([...found.addresses].sort(), ['10.244.0.2', '10.244.0.3'])
  assert.deepEqual((await listPodFromManifests(folder, { ...POD, name: 'none' }, soon())).addresses, [])
  await assert.rejects(listPodFromManifests(join(folder, 'nowhere'), POD, soon()))
})
