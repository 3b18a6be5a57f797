/** The addresses of the API server and of the resolvers are followed while they change. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { ProtectedAddresses, type ProtectedAddressesOptions } from '../../src/daemon/protected-addresses.ts'
import { VirtualIpGuard } from '../../src/service/virtual-ip-guard.ts'
import { until } from '../support/deadline.ts'

const MINUTE_MS = 60_000

interface World {
  readonly guard: VirtualIpGuard
  readonly addresses: ProtectedAddresses
  readonly warnings: string[]
  /** Address and owner of everything that is protected. */
  readonly owners: () => Readonly<Record<string, string>>
}

function world(options: Partial<ProtectedAddressesOptions>): World {
  const guard = new VirtualIpGuard({}, false)
  const warnings: string[] = []
  const log = { warn: (message: string) => void warnings.push(message) }
  const addresses = new ProtectedAddresses({ guard, log, resolverFiles: [], ...options })
  return { guard, addresses, warnings, owners: () => Object.fromEntries(guard.rule.protected ?? []) }
}

async function file(t: TestContext, text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'kube-ipvs-resolv-'))
  t.after(() => rm(folder, { recursive: true }))
  const path = join(folder, 'resolv.conf')
  await writeFile(path, text)
  return path
}

test('they are those of the server, of the proxy in front of it, and of all resolvers', async (t) => {
  const stub = await file(t, 'nameserver 127.0.0.53')
  const upstream = await file(t, 'nameserver 192.0.2.53')
  const { guard, addresses, owners } = world({
    resolverFiles: [stub, '/nonexistent', upstream],
    urls: async () => ({ server: 'https://api.example:6443', proxyUrl: 'http://192.0.2.80:3128' }),
    resolve: async (host) => (host === 'api.example' ? ['192.0.2.10', 'fd00::10'] : []),
  })
  await addresses.start()
  assert.deepEqual(owners(), {
    '127.0.0.53': 'the resolvers of this node',
    '192.0.2.53': 'the resolvers of this node',
    '192.0.2.10': 'the API server',
    'fd00::10': 'the API server',
    '192.0.2.80': 'the proxy of the API server',
  })
  assert.deepEqual(guard.rule.apiServer.get('192.0.2.10'), new Set([6443]))
  assert.deepEqual(guard.rule.apiServer.get('192.0.2.80'), new Set([3128]))
})

test('each minute they are read again, until nobody follows them', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const resolv = await file(t, 'nameserver 192.0.2.53')
  let [proxyUrl, answer, lookups]: [string | undefined, string, number] = ['https://proxy.example', '192.0.2.10', 0]
  const { addresses, owners, warnings } = world({
    resolverFiles: [resolv],
    urls: async () => ({ server: 'https://api.example', proxyUrl }),
    resolve: async (host) => {
      lookups++
      if (answer === '') throw new Error('no answer')
      return host === 'proxy.example' ? ['192.0.2.81'] : [answer]
    },
  })
  await addresses.start()
  assert.deepEqual(Object.keys(owners()).sort(), ['192.0.2.10', '192.0.2.53', '192.0.2.81'])
  const [stop, stopToo] = [addresses.follow(), addresses.follow()]
  await writeFile(resolv, 'nameserver 192.0.2.54')
  proxyUrl = undefined
  answer = '192.0.2.11'
  t.mock.timers.tick(MINUTE_MS)
  await until('the new addresses', () => Object.keys(owners()).sort().join() === '192.0.2.11,192.0.2.54')
  stop()
  stop()
  answer = ''
  const before = lookups
  t.mock.timers.tick(MINUTE_MS)
  await until('a lookup', () => lookups > before)
  await new Promise(setImmediate)
  assert.deepEqual(
    Object.keys(owners()).sort(),
    ['192.0.2.11', '192.0.2.54'],
    'a name without an answer keeps its addresses',
  )
  assert.deepEqual(warnings, [])
  stopToo()
  t.mock.timers.tick(10 * MINUTE_MS)
  await new Promise(setImmediate)
  assert.equal(lookups, before + 1)
})

test('a start waits two seconds for them, and says what it does not know', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { addresses, warnings } = world({
    urls: async () => ({ server: 'https://api.example' }),
    resolve: () => new Promise(() => undefined),
  })
  const started = addresses.start()
  t.mock.timers.tick(2000)
  await started
  assert.equal(warnings.length, 1)
  const unknown = world({ urls: async () => Promise.reject(new Error('no kubeconfig')) })
  await unknown.addresses.start()
  assert.equal(unknown.warnings.length, 1)
})

test('an address to which a connection was made is one of them; the last sixteen are remembered', () => {
  const { guard, addresses } = world({})
  addresses.connected('::ffff:192.0.2.1', 6443)
  addresses.connected('192.0.2.1', 6443)
  addresses.connected('no address', 6443)
  assert.deepEqual(guard.rule.apiServer, new Map([['192.0.2.1', new Set([6443])]]))
  addresses.connected('192.0.2.1', 443)
  assert.deepEqual(guard.rule.apiServer.get('192.0.2.1'), new Set([443]))
  for (let host = 2; host <= 17; host++) addresses.connected(`192.0.2.${host}`, 443)
  assert.equal(guard.rule.apiServer.size, 16)
  assert.equal(guard.rule.apiServer.has('192.0.2.1'), false)
})
