/** What doctor reads of a cluster: the fields that checks need and no others, whatever the API server answers. */
import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import { afterEach, it } from 'node:test'
import type { AddressInfo } from 'node:net'
import { type ApiServerFact, CLUSTER } from '../../src/doctor/cluster-facts.ts'
import { readSilentServer } from '../../src/doctor/read-api-server.ts'
import { readCluster } from '../../src/doctor/read-cluster.ts'
import type { AccessProvider } from '../../src/watch/api/access.ts'
import { ApiError } from '../../src/watch/api/api-error.ts'

let server: Server | undefined
afterEach(() => {
  server?.closeAllConnections()
  server?.close()
})

type Answers = Readonly<Record<string, unknown>>

/**
 * An API server with these answers by path; a number is the status of a refusal. Its clock is
 * `aheadMs` behind ours.
 */
async function serve(answers: Answers, aheadMs = 0): Promise<AccessProvider> {
  const made = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://x')
    const name = searchParams.get('fieldSelector')?.replace('metadata.name=', '/') ?? ''
    const answer = answers[`${pathname}${name}`] ?? 403
    response.setHeader('date', new Date(Date.now() - aheadMs).toUTCString())
    response.setHeader('content-type', 'application/json')
    response.statusCode = typeof answer === 'number' ? answer : 200
    response.end(JSON.stringify(typeof answer === 'number' ? { kind: 'Status', code: answer } : answer))
  })
  server = made
  await new Promise<void>((resolve) => made.listen(0, '127.0.0.1', resolve))
  const { port } = made.address() as AddressInfo // it listens at a port
  const access = { server: `http://127.0.0.1:${port}`, headers: { authorization: 'Bearer secret' }, tls: {} }
  return { access: () => Promise.resolve(access), invalidate: () => undefined }
}

const HOST = { nodeName: 'node7', addresses: ['192.0.2.7'] }

const list = (...items: unknown[]): unknown => ({ kind: 'List', metadata: { resourceVersion: '1' }, items })
const read = async (answers: Answers, aheadMs?: number) =>
  readCluster(await serve(answers, aheadMs), HOST, AbortSignal.timeout(20_000))

const MAPS = '/api/v1/namespaces/kube-system/configmaps'
const FELIX = '/apis/crd.projectcalico.org/v1/felixconfigurations/default'

it('readCluster keeps names and images of DaemonSets, and one value of each other object', async () => {
  const speaker = {
    metadata: { namespace: 'metallb-system', name: 'speaker', annotations: { secret: 'x' } },
    spec: {
      template: {
        spec: {
          nodeSelector: { pool: 'a' },
          containers: [{ image: 'quay.io/metallb/speaker:v0.15.2', env: [{ name: 'TOKEN', value: 'secret' }] }],
        },
      },
    },
    status: { desiredNumberScheduled: 5 },
  }
  const cluster = await read({
    '/apis/apps/v1/daemonsets': list(speaker),
    [`${MAPS}/kube-proxy`]: list({ data: { 'config.conf': 'apiVersion: x\nmode: "ipvs"\ntoken: secret\n' } }),
    [`${MAPS}/cilium-config`]: list(),
    [FELIX]: 404,
    '/api/v1/nodes/node7': list({ metadata: { name: 'node7', labels: { pool: 'b' } } }),
  })
  assert.deepEqual(
    { ...cluster, clockAheadSeconds: 0 },
    {
      clockAheadSeconds: 0,
      daemonSets: {
        value: [
          {
            namespace: 'metallb-system',
            name: 'speaker',
            images: ['quay.io/metallb/speaker:v0.15.2'],
            desired: 5,
            selectsHere: false,
          },
        ],
      },
      kubeProxyMode: { value: 'ipvs' },
      ciliumReplacement: { value: null },
      calicoBpf: { value: null },
      node: { value: { isThere: true, similar: [] } },
    },
  )
  assert.doesNotMatch(JSON.stringify(cluster), /secret/)
})

it('readCluster finds the Nodes that this host may be, when there is none of its name', async () => {
  const node = (name: string, address: string): unknown => ({
    metadata: { name },
    status: { addresses: [{ address }] },
  })
  const { node: found } = await read({
    '/api/v1/nodes/node7': list(),
    '/api/v1/nodes': list(
      node('node7.example.internal', '192.0.2.99'),
      node('ip-192-0-2-7', '192.0.2.7'),
      node('node8', '192.0.2.8'),
      null,
      { metadata: 7, status: { addresses: {} } },
    ),
  })
  assert.deepEqual(found, { value: { isThere: false, similar: ['node7.example.internal', 'ip-192-0-2-7'] } })
})

it('readCluster says what the credentials may not read, and has the clock from the refusal', async () => {
  const cluster = await read({}, 3_600_000)
  for (const fact of [cluster.daemonSets, cluster.kubeProxyMode, cluster.ciliumReplacement, cluster.calicoBpf])
    assert.ok('unseen' in fact)
  assert.ok(Math.abs((cluster.clockAheadSeconds ?? 0) - 3600) < 60, String(cluster.clockAheadSeconds))
})

it('readCluster takes objects of any form', async () => {
  const cluster = await read({
    '/apis/apps/v1/daemonsets': list(null, 7, {}, { metadata: [], spec: { template: 'x' }, status: null }),
    [`${MAPS}/kube-proxy`]: list({ data: { 'config.conf': 'mode: \x1b[31m' } }),
    [`${MAPS}/cilium-config`]: list({ data: { 'kube-proxy-replacement': 'x'.repeat(10_000) } }),
    [FELIX]: list({ spec: { bpfEnabled: 'true' } }),
  })
  const kept = CLUSTER(cluster, '')
  assert.ok('value' in kept.daemonSets && kept.daemonSets.value.length === 4)
  assert.ok('value' in kept.ciliumReplacement && kept.ciliumReplacement.value?.length === 60)
  assert.deepEqual(kept.calicoBpf, { value: false })
})

it('readCluster rejects when no API server answers', async () => {
  const access = await serve({})
  server?.close()
  await new Promise((resolve) => server?.on('close', resolve))
  await assert.rejects(readCluster(access, HOST, AbortSignal.timeout(20_000)), /ECONNREFUSED/)
})

/** A node with an address of its own, one virtual IP with a virtual server, and one without. */
function lookAt(): Parameters<typeof readSilentServer>[0] {
  const device = { index: 7, name: 'kube-ipvs0', kind: 'dummy', flags: 0 }
  const addresses = [
    { address: '192.0.2.7', prefixLength: 24, interfaceIndex: 2 },
    ...['10.96.0.1', '192.0.2.50'].map((address) => ({ address, prefixLength: 32, interfaceIndex: 7 })),
  ]
  const found = {
    rtnetlink: { listAddresses: async () => addresses },
    ipvs: async () => ({
      getService: async ({ address, port }: { readonly address: string; readonly port: number }) =>
        address === '10.96.0.1' && port === 443 ? {} : undefined,
    }),
    virtualIps: async () => ({ device, routes: new Map([['192.0.2.51', {}]]), privateTables: [] }),
  }
  return found as unknown as Parameters<typeof readSilentServer>[0] // what is asked of a kernel
}

it('readSilentServer says where the address of an API server leads that does not answer', async () => {
  const signal = AbortSignal.timeout(20_000)
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  const error = new ApiError('api-unreachable', 'connect ECONNREFUSED', { cause: refused })
  const rows: readonly (readonly [server: string, expected: Omit<ApiServerFact, 'code' | 'reason'>])[] = [
    ['https://10.96.0.1', { server: 'https://10.96.0.1', place: 'virtual-server' }],
    ['https://10.96.0.1:6443/x', { server: 'https://10.96.0.1:6443', place: 'virtual-ip' }],
    ['https://192.0.2.50:6443', { server: 'https://192.0.2.50:6443', place: 'virtual-ip' }],
    ['https://192.0.2.51:6443', { server: 'https://192.0.2.51:6443', place: 'virtual-ip' }],
    ['https://192.0.2.7:6443', { server: 'https://192.0.2.7:6443', place: 'here' }],
    ['https://127.0.0.1:6443', { server: 'https://127.0.0.1:6443', place: 'here' }],
    ['https://[fd00::1]:6443', { server: 'https://[fd00::1]:6443', place: 'elsewhere' }],
    ['https://api.example:6443', { server: 'https://api.example:6443', place: 'name' }],
  ]
  for (const [url, expected] of rows) {
    const fact = await readSilentServer(lookAt(), url, error, signal)
    assert.deepEqual(fact, { code: 'ECONNREFUSED', reason: 'connect ECONNREFUSED', ...expected })
  }
  for (const url of [undefined, 'no URL'])
    assert.deepEqual(await readSilentServer(lookAt(), url, new Error('no such file'), signal), {
      server: '',
      code: '',
      reason: 'no such file',
      place: 'unknown',
    })
})
