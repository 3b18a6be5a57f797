/** The client of the commands and the answers of the daemon, over a real Unix socket. */
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { askDaemon, type DaemonClient, isUnknown, type NoAnswer } from '../../src/inspect/daemon-client.ts'
import { type Place, type RefusalCode, VIEW_FORMAT, VIEW_PATH } from '../../src/inspect/questions.ts'
import type { ServiceView } from '../../src/inspect/view.ts'
import { ADDRESSES, hostAddress } from '../../src/ipvs/address-diff.ts'
import { ROUTES } from '../../src/ipvs/route-diff.ts'
import { jsonAnswer, type Responder } from '../../src/serve/http-answer.ts'
import type { ObjectChange, Service, SliceEndpoint } from '../../src/service/objects.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { VERSION } from '../../src/values/well-known.ts'
import { deadline } from '../support/deadline.ts'
import { inspectedOf, SocketFolder } from '../support/local-daemon.ts'
import { MemoryTable } from '../support/memory-table.ts'
import { endpoint, service, servicePort, slice } from '../support/objects.ts'

const folders: SocketFolder[] = []
after(() => {
  for (const folder of folders) folder.close()
})

function socketFolder(): SocketFolder {
  const folder = new SocketFolder()
  folders.push(folder)
  return folder
}

const put = (name: string, change: Partial<Service> = {}): ObjectChange => ({
  kind: 'services',
  key: `demo/${name}`,
  value: service({ name, ...change }),
})
const putSlice = (serviceName: string, endpoints: readonly SliceEndpoint[]): ObjectChange => ({
  kind: 'endpointslices',
  key: `demo/${serviceName}-1`,
  value: slice({ serviceName, endpoints }),
})

/** The view, or a failure of the test. */
function known<Answer extends object>(answer: Answer): Exclude<Answer, NoAnswer> {
  assert.ok(!isUnknown(answer), JSON.stringify(answer))
  return answer as Exclude<Answer, NoAnswer> // TypeScript does not narrow a type parameter
}

/** What the daemon tells about one Service. */
async function serviceOf(client: DaemonClient, name: string): Promise<ServiceView> {
  const [view, ...others] = known(await client.services(name)).services
  assert.ok(view !== undefined && others.length === 0)
  return view
}

/** GET with any path, as text. */
function raw(socketPath: string, path: string, method = 'GET'): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath, path, method }, (response) => {
      let body = ''
      response.setEncoding('utf8').on('data', (text) => (body += text))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }))
    })
    asked.on('error', reject)
    asked.end()
  })
}

describe('askDaemon', () => {
  it('tells the state of the daemon', async () => {
    const folder = socketFolder()
    const inspected = inspectedOf([put('web'), put('other')])
    await folder.serve(() => inspected)
    const view = known(await askDaemon(folder.path).daemon())
    assert.deepEqual(
      [view.format, view.version, view.pid, view.mode, view.configuredMode, view.fallback, view.virtualAddresses],
      [VIEW_FORMAT, VERSION, process.pid, 'ipvs', 'ipvs', null, 'addresses'],
    )
    assert.deepEqual(view.health, { healthy: true, reason: null, pending: [] })
    // Both Services want one address.
    assert.deepEqual(view.counts, { services: 2, frontends: 1, conflicts: 1, draining: 0, problems: 0 })
    assert.deepEqual(view.node.podCidrs, ['10.244.0.0/24'])
    assert.deepEqual(view.passes, [
      { what: 'tables', endedSecondsAgo: 2.5, durationMs: 2, applied: 3, failed: 0, unreadable: 0 },
    ])
  })

  it('says what is late and what the daemon waits for', async () => {
    const folder = socketFolder()
    const trouble = { what: 'rules IPv4', ageMs: 61_000, isLate: true }
    const inspected = inspectedOf([], {
      readiness: { awaited: new Set(['services']) },
      health: { state: { nodeEligible: false, families: new Map() }, troubles: [trouble], isHealthy: false },
    })
    await folder.serve(() => inspected)
    const { health, awaiting } = known(await askDaemon(folder.path).daemon())
    assert.equal(health.healthy, false)
    assert.equal(health.reason, 'the Node is unknown or is being removed; rules IPv4 have not ended for 61 s')
    assert.deepEqual(awaiting, ['services'])
  })

  it('tells the owner of every frontend, page by page', async () => {
    const folder = socketFolder()
    const count = 4500
    const all = Array.from({ length: count }, (_, index) =>
      put(`s${index}`, { clusterIps: { IPv4: `10.96.${index >> 8}.${index & 255}` } }),
    )
    const inspected = inspectedOf(all)
    await folder.serve(() => inspected)
    const names = known(await askDaemon(folder.path).names())
    assert.equal(names.size, count)
    assert.deepEqual(names.get('10.96.17.147:80/tcp'), {
      key: '10.96.17.147:80/tcp',
      servicePort: 'demo/s4499:http',
      roles: ['ClusterIP'],
    })
    const page = JSON.parse((await raw(folder.path, `${VIEW_PATH.names}?limit=3`)).body)
    assert.deepEqual([page.frontends.length, page.more], [3, true])
  })

  it('begins again when the last key of a page has gone', async () => {
    const folder = socketFolder()
    const all = Array.from({ length: 3000 }, (_, index) =>
      put(`s${index}`, { clusterIps: { IPv4: `10.96.${index >> 8}.${index & 255}` } }),
    )
    const inspected = inspectedOf(all)
    let pages = 0
    await folder.serve(() => {
      // After the first page its last frontend is removed.
      if (++pages === 2) {
        inspected.desired.apply({ kind: 'services', key: 'demo/s1999', value: undefined })
        inspected.desired.flushAll({ frontend: () => undefined, problems: () => undefined })
      }
      return inspected
    })
    assert.equal(known(await askDaemon(folder.path).names()).size, 2999)
    assert.equal(pages, 4)
  })

  it('tells the endpoints of a Service with their verdicts, and who has its addresses', async () => {
    const folder = socketFolder()
    const inspected = inspectedOf([
      put('web', { externalIps: ['192.0.2.1'], externalTrafficPolicy: 'Local', createdAtMs: 2 }),
      put('older', { clusterIps: { IPv4: '10.96.0.2' }, externalIps: ['192.0.2.1'], createdAtMs: 1 }),
      putSlice('web', [
        endpoint({ address: '10.244.0.1', nodeName: 'node0' }),
        endpoint({ address: '10.244.1.1', nodeName: 'node1', zoneHints: ['zone-b'] }),
        endpoint({ address: '10.244.1.2', nodeName: 'node1', ready: false }),
      ]),
    ])
    await folder.serve(() => inspected)
    const client = askDaemon(folder.path)
    const view = await serviceOf(client, 'demo/web')
    assert.deepEqual([view.namespace, view.name, view.omitted, view.ports.length], ['demo', 'web', 0, 1])
    const [port] = view.ports
    assert.deepEqual([port?.name, port?.port, port?.externalPolicy], ['demo/web:http', 80, 'Local'])
    assert.deepEqual(
      port?.endpoints.map(({ key, isLocal, internal, external }) => [key, isLocal, internal, external]),
      [
        ['10.244.0.1:8080', true, 'used', 'used-local'],
        ['10.244.1.1:8080', false, 'used', 'not-local'],
        ['10.244.1.2:8080', false, 'not-ready', 'not-ready'],
      ],
    )
    assert.deepEqual(port?.endpoints[1]?.zoneHints, ['zone-b'])
    assert.deepEqual(port?.frontends, [
      {
        key: '10.96.0.1:80/tcp',
        roles: ['ClusterIP'],
        isBound: true,
        verdicts: 'internal',
        owner: 'demo/web',
        others: [],
        sourceRanges: null,
      },
      {
        key: '192.0.2.1:80/tcp',
        roles: ['ExternalIP'],
        isBound: true,
        verdicts: 'external',
        owner: 'demo/older',
        others: ['demo/web'],
        sourceRanges: null,
      },
    ])
    assert.deepEqual(known(await client.services('demo/nothing')).services, [])
  })

  it('finds Services by an address and port that they have won, or by a node port', async () => {
    const folder = socketFolder()
    const ofBoth = (['tcp', 'udp'] as const).map((protocol) =>
      put(protocol, {
        clusterIps: { IPv4: protocol === 'tcp' ? '10.96.0.3' : '10.96.0.4' },
        ports: [servicePort({ protocol, port: 80, nodePort: 30_080 })],
      }),
    )
    const inspected = inspectedOf([
      put('web', { externalIps: ['192.0.2.1'], createdAtMs: 2 }),
      put('older', { clusterIps: { IPv4: '10.96.0.2' }, externalIps: ['192.0.2.1'], createdAtMs: 1 }),
      ...ofBoth,
    ])
    await folder.serve(() => inspected)
    const client = askDaemon(folder.path)
    const owners = async (place: Place) => known(await client.services(place)).services.map(({ name }) => name)
    assert.deepEqual(await owners({ address: '192.0.2.1', port: 80, protocol: 'tcp' }), ['older'])
    assert.deepEqual(await owners({ address: '10.96.0.1', port: 80, protocol: undefined }), ['web'])
    assert.deepEqual(await owners({ address: '10.96.0.1', port: 80, protocol: 'udp' }), [])
    assert.deepEqual(await owners({ address: '192.0.2.9', port: 80, protocol: undefined }), [])
    assert.deepEqual(await owners({ port: 30_080, protocol: undefined }), ['tcp', 'udp'])
    assert.deepEqual(await owners({ port: 30_080, protocol: 'udp' }), ['udp'])
    assert.deepEqual(await owners({ port: 80, protocol: undefined }), [])
  })

  it('tells what is wanted in the kernel for the frontends that a Service has won', async () => {
    const folder = socketFolder()
    const asked: string[] = []
    const annotations = JSON.stringify([['kube-ipvs.io/scheduler', 'lc']])
    const proxy = inspectedOf([
      put('old', { createdAtMs: 1, clusterIps: { IPv4: '10.96.0.1' }, externalIps: ['203.0.113.1'], annotations }),
      put('new', { createdAtMs: 2, clusterIps: { IPv4: '10.96.0.2' }, externalIps: ['203.0.113.1'] }),
    ])
    await folder.serve(() => ({
      ...proxy,
      mode: {
        ...proxy.mode,
        dataplane: {
          *wanted(frontends) {
            for (const { key, address = '' } of frontends) {
              asked.push(key)
              yield { table: 'addresses', key: address, neededBy: key, item: hostAddress(address) }
            }
          },
        },
      },
    }))
    const client = askDaemon(folder.path)
    const view = await serviceOf(client, 'demo/new')
    assert.deepEqual(asked, ['10.96.0.2:80/tcp'])
    assert.deepEqual([view.omittedRows, view.annotations], [0, []])
    assert.deepEqual(view.wanted, [
      { table: 'addresses', key: '10.96.0.2', neededBy: '10.96.0.2:80/tcp', item: hostAddress('10.96.0.2') },
    ])
    assert.deepEqual((await serviceOf(client, 'demo/old')).annotations, [['kube-ipvs.io/scheduler', 'lc']])
  })

  it('tells drains and the endpoints of a pod', async () => {
    const folder = socketFolder()
    const virtualServer = '10.96.0.1:80/tcp'
    const inspected = inspectedOf([put('web')], {}, [
      { virtualServer, realServer: '10.244.0.1:8080', ageMs: 1500, deadlineMs: 30_000 },
      {
        virtualServer: '10.96.9.9:80/tcp',
        realServer: '10.244.0.2:8080',
        ageMs: 0,
        deadlineMs: Number.POSITIVE_INFINITY,
      },
    ])
    await folder.serve(() => inspected)
    const client = askDaemon(folder.path)
    assert.deepEqual(known(await client.drains()).drains, [
      { virtualServer, realServer: '10.244.0.1:8080', servicePort: 'demo/web:http', seconds: 1.5, deadlineSeconds: 30 },
      {
        virtualServer: '10.96.9.9:80/tcp',
        realServer: '10.244.0.2:8080',
        servicePort: null,
        seconds: 0,
        deadlineSeconds: null,
      },
    ])
    assert.deepEqual(known(await client.pod('demo/web-7')).addresses, ['10.244.0.9'])
  })

  it('tells real servers that do not answer', async () => {
    const folder = socketFolder()
    const virtualServer = '10.96.0.1:80/tcp'
    const outliers = [
      { virtualServer, realServer: '10.244.0.1:8080', state: 'suspect', ageMs: 1500, nextTrialMs: 3500 },
      { virtualServer, realServer: '10.244.0.2:8080', state: 'on-trial', ageMs: 200 },
    ] as const
    await folder.serve(() => inspectedOf([put('web')], {}, [], [], outliers))
    const { outliers: told } = known(await askDaemon(folder.path).outliers())
    assert.deepEqual(told, [
      {
        virtualServer,
        realServer: '10.244.0.1:8080',
        servicePort: 'demo/web:http',
        state: 'suspect',
        seconds: 1.5,
        nextTrialSeconds: 3.5,
      },
      {
        virtualServer,
        realServer: '10.244.0.2:8080',
        servicePort: 'demo/web:http',
        state: 'on-trial',
        seconds: 0.2,
        nextTrialSeconds: null,
      },
    ])
  })

  it('tells the rows of the plan by state, and names those that are wrong', async () => {
    const folder = socketFolder()
    const table = new MemoryTable(ADDRESSES)
    for (const address of ['10.96.0.1', '10.96.0.2', '10.96.0.9']) table.kernel.set(address, hostAddress(address))
    table.kernel.set('10.96.0.2', { address: '10.96.0.2', bindings: [{ prefixLength: 24 }] })
    const addresses = new TableSync(table)
    for (const address of ['10.96.0.1', '10.96.0.2', '10.96.0.3']) addresses.want(address, hostAddress(address))
    await folder.serve(() => inspectedOf([], {}, [], [addresses, new TableSync(new MemoryTable(ROUTES))]))
    const client = askDaemon(folder.path)
    assert.deepEqual(known(await client.rows()), {
      format: VIEW_FORMAT,
      tables: [],
      unread: ['addresses', 'routes'],
      wrong: [],
    })
    await addresses.read(new AbortController().signal)
    const { tables, unread, wrong } = known(await client.rows())
    assert.deepEqual(tables, [{ table: 'addresses', missing: 1, extra: 1, differs: 1, present: 1, draining: 0 }])
    assert.deepEqual(unread, ['routes'])
    assert.deepEqual(wrong.map(({ key, state }) => `${key} ${state}`).sort(), [
      '10.96.0.2 differs',
      '10.96.0.3 missing',
      '10.96.0.9 extra',
    ])
  })

  it('does not hold the event loop for rows that each take long to compare, and makes no text of them', async () => {
    const folder = socketFolder()
    const [count, compareMs] = [60, 1]
    let compared = 0
    const kind: typeof ADDRESSES = {
      ...ADDRESSES,
      diff(key, desired, live) {
        compared++
        for (const endMs = performance.now() + compareMs; performance.now() < endMs; ) continue
        return ADDRESSES.diff(key, desired, live)
      },
      text: () => assert.fail('nobody reads the commands of these rows'),
    }
    const table = new MemoryTable(kind)
    const addresses = new TableSync(table)
    for (let index = 0; index < count; index++) {
      const [changed, missing] = [`10.96.0.${index}`, `10.96.1.${index}`]
      table.kernel.set(changed, { address: changed, bindings: [{ prefixLength: 24 }] })
      for (const address of [changed, missing]) addresses.want(address, hostAddress(address))
    }
    await addresses.read(new AbortController().signal)
    await folder.serve(() => inspectedOf([], {}, [], [addresses]))
    compared = 0
    const asked = askDaemon(folder.path).rows()
    let [turns, isDone] = [0, false]
    void asked.then(() => (isDone = true))
    for (let before = -1; !isDone; await new Promise((resolve) => setImmediate(resolve))) {
      if (compared > before) turns++
      before = compared
    }
    const { tables } = known(await asked)
    assert.deepEqual(tables, [
      { table: 'addresses', missing: count, extra: 0, differs: count, present: 0, draining: 0 },
    ])
    // What is missing needs no comparison.
    assert.equal(compared, count)
    assert.ok(turns > 10, `${turns} turns`)
  })

  it('does not hold the event loop of the daemon for an answer about very much', async () => {
    const folder = socketFolder()
    const endpoints = Array.from({ length: 20_000 }, (_, index) =>
      endpoint({ address: `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}` }),
    )
    const inspected = inspectedOf([put('web'), putSlice('web', endpoints)])
    await folder.serve(() => inspected)
    const asked = serviceOf(askDaemon(folder.path), 'demo/web')
    let turns = 0
    let isDone = false
    void asked.then(() => (isDone = true))
    for (; !isDone; turns++) await new Promise((resolve) => setImmediate(resolve))
    assert.equal((await asked).ports[0]?.endpoints.length, 20_000)
    assert.ok(turns > 3, `${turns} turns`)
  })

  it('says that the daemon has no proxy yet', async () => {
    const folder = socketFolder()
    await folder.serve(() => undefined)
    const answer = await askDaemon(folder.path).daemon()
    assert.equal(isUnknown(answer) && answer.unknown, 'starting')
  })

  it('says why there is no answer', async () => {
    const folder = socketFolder()
    mkdirSync(dirname(folder.path))
    const reasonAt = async (path: string): Promise<readonly [string, string]> => {
      const deadlineMs = deadline(path.endsWith('/slow') ? 200 : 10_000)
      const answer = await askDaemon(path, { deadlineMs, maxBytes: 1000 }).daemon()
      assert.ok(isUnknown(answer))
      return [answer.unknown, answer.reason.replaceAll(folder.folder, '')]
    }
    const at = (name: string, answer: Responder): Promise<void> =>
      folder.listenPlainly(answer, join(folder.folder, name))
    writeFileSync(join(folder.folder, 'file'), '')
    await at('html', () => jsonAnswer('<html>'))
    await at('array', () => jsonAnswer('[1]'))
    await at('slow', () => new Promise(() => undefined))
    await at('long', () => jsonAnswer(JSON.stringify({ format: VIEW_FORMAT, text: 'x'.repeat(5000) })))
    await at('newer', () => jsonAnswer('{"format":9}', 200, [['Server', 'kube-ipvs/9.1.0']]))
    await at('hostile', () => jsonAnswer('{"format":9}', 200, [['Server', 'kube-ipvs/9;[2J']]))
    await at('refusing', () =>
      jsonAnswer(`{"format":${VIEW_FORMAT},"error":{"code":"starting","message":"a\\u001bb"}}`, 503),
    )
    await at('incomplete', () =>
      jsonAnswer(`{"format":${VIEW_FORMAT},"version":"9","pid":1}`, 200, [['Server', 'kube-ipvs/9.1.0']]),
    )
    const open = join(folder.folder, 'open')
    mkdirSync(open)
    await folder.listenPlainly(() => jsonAnswer('{}'), join(open, 's'))
    chmodSync(open, 0o777)
    const rows: readonly (readonly [path: string, code: string, reason: RegExp])[] = [
      [
        join(open, 's'),
        'no-answer',
        /^the daemon was not asked, because other users may write to the folder "\/open"$/,
      ],
      [
        join(folder.folder, 'incomplete'),
        'other-format',
        /^the daemon is kube-ipvs 9\.1\.0, and its answer does not have the member "uptimeSeconds" as kube-ipvs [\d.]+\S* reads it: /,
      ],
      ['', 'off', /kubeIPVS\.socket is empty$/],
      [join(folder.folder, 'nothing'), 'no-daemon', /^no daemon answers at "\/nothing"$/],
      [join(folder.folder, 'file'), 'no-daemon', /^no daemon answers/],
      [join(folder.folder, 'file', 'x'), 'no-daemon', /^no daemon answers/],
      [join(folder.folder, 'html'), 'no-answer', /^what answers at "\/html" is not kube-ipvs$/],
      [join(folder.folder, 'array'), 'no-answer', /is not kube-ipvs$/],
      [join(folder.folder, 'slow'), 'no-answer', /did not answer in time$/],
      [join(folder.folder, 'long'), 'no-answer', /the answer is longer than 1000 bytes$/],
      [
        join(folder.folder, 'newer'),
        'other-format',
        /^the daemon is kube-ipvs 9\.1\.0 and answers in format 9, this command is kube-ipvs [\d.]+\S* and reads format 3: /,
      ],
      [
        join(folder.folder, 'hostile'),
        'other-format',
        /^the daemon is kube-ipvs of an unknown version and answers in format 9/,
      ],
      [join(folder.folder, 'refusing'), 'starting', /^a\\x1bb$/],
    ]
    for (const [path, code, reason] of rows) {
      const answer = await reasonAt(path)
      assert.equal(answer[0], code, path)
      assert.match(answer[1], reason, path)
    }
  })
})

describe('the daemon', () => {
  it('refuses what it does not understand, and goes on', async () => {
    const folder = socketFolder()
    const inspected = inspectedOf([put('web')])
    await folder.serve(() => inspected)
    const long = 'a'.repeat(3000)
    const rows: readonly (readonly [path: string, status: number, code: RefusalCode])[] = [
      ['/', 404, 'unknown-path'],
      ['/v1/daemon/', 404, 'unknown-path'],
      ['/v1/../v1/daemon', 404, 'unknown-path'],
      ['/metrics', 404, 'unknown-path'],
      ['/v1/services', 400, 'bad-parameter'],
      ['/v1/services?service=', 400, 'bad-parameter'],
      ['/v1/services?service=demo', 400, 'bad-parameter'],
      ['/v1/services?service=demo/web%00', 400, 'bad-parameter'],
      ['/v1/services?service=__proto__/x', 400, 'bad-parameter'],
      [`/v1/services?service=demo/${long}`, 400, 'bad-parameter'],
      ['/v1/services?service=%ff%fe/x', 400, 'bad-parameter'],
      ['/v1/pod?pod=../../etc/passwd', 400, 'bad-parameter'],
      ['/v1/pod?pod=demo/a?limit=1', 400, 'bad-parameter'],
      ['/v1/connections', 400, 'bad-parameter'],
      ['/v1/connections?to=', 400, 'bad-parameter'],
      ['/v1/connections?to=10.244.0.1&to=demo/web', 400, 'bad-parameter'],
      [`/v1/connections?${'to=10.244.0.1&'.repeat(65)}`, 400, 'bad-parameter'],
      ['/v1/services?address=10.96.0.1', 400, 'bad-parameter'],
      ['/v1/services?port=0', 400, 'bad-parameter'],
      ['/v1/services?port=65536', 400, 'bad-parameter'],
      ['/v1/services?port=80%0a', 400, 'bad-parameter'],
      ['/v1/services?port=80&address=', 400, 'bad-parameter'],
      [`/v1/services?port=80&address=${long}`, 400, 'bad-parameter'],
      ['/v1/services?port=80&protocol=icmp', 400, 'bad-parameter'],
      ['/v1/names?limit=0', 400, 'bad-parameter'],
      ['/v1/names?limit=-1', 400, 'bad-parameter'],
      ['/v1/names?limit=1e9', 400, 'bad-parameter'],
      ['/v1/names?after=x', 400, 'bad-parameter'],
      ['/v1/names?after=10.0.0.9:1/tcp', 410, 'gone'],
    ]
    for (const [path, status, code] of rows) {
      const answer = await raw(folder.path, path)
      assert.deepEqual([answer.status, JSON.parse(answer.body).error.code], [status, code], path)
      assert.equal(JSON.parse(answer.body).format, VIEW_FORMAT)
    }
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'HEAD'])
      assert.equal((await raw(folder.path, VIEW_PATH.daemon, method)).status, 405, method)
    assert.equal((await raw(folder.path, `${VIEW_PATH.names}?limit=999999`)).status, 200)
    known(await askDaemon(folder.path).daemon())
    assert.deepEqual(
      folder.log.lines.filter(({ level }) => level !== 'info'),
      [],
    )
  })

  it('survives clients that send nothing, nonsense or too many connections', async () => {
    const folder = socketFolder()
    const inspected = inspectedOf([put('web')])
    await folder.serve(() => inspected)
    const sockets = Array.from({ length: 30 }, (_, index) => {
      const socket = connect({ path: folder.path })
      socket.on('error', () => undefined)
      if (index % 2 === 0) socket.write('\x00\xff GET nonsense\r\n\r\n')
      return socket
    })
    try {
      known(await askDaemon(folder.path).daemon())
      known(await askDaemon(folder.path).names())
    } finally {
      for (const socket of sockets) socket.destroy()
    }
  })
})
