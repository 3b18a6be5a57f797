import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { fallbackReason, runningMode, runningProxy } from '../../src/cli/running-proxy.ts'
import { deadline } from '../support/deadline.ts'

/** A port on loopback where one path answers this. */
async function port(t: TestContext, status: number, body: string, path = '/proxyMode'): Promise<number> {
  const server = createServer((request, response) => {
    response.writeHead(request.url === path ? status : 404).end(body)
  })
  t.after(() => server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port // it listens on a port
}

test('runningMode asks the proxy at its metrics address', async (t) => {
  const there = await port(t, 200, 'iptables')
  assert.equal(await runningMode(`127.0.0.1:${there}`), 'iptables')
  assert.equal(await runningMode(`0.0.0.0:${there}`), 'iptables')
})

test('runningMode concludes nothing from other answers and from silence', async (t) => {
  assert.equal(await runningMode(`127.0.0.1:${await port(t, 404, 'iptables')}`), undefined)
  assert.equal(await runningMode(`127.0.0.1:${await port(t, 200, '<html>ipvs</html>')}`), undefined)
  assert.equal(await runningMode('127.0.0.1:1'), undefined)
  assert.equal(await runningMode(''), undefined)
})

test('fallbackReason reads the metric of the proxy, and nothing from a page without it', async (t) => {
  const page = (reason: string): string =>
    `a 1\nkubeipvs_mode{active="iptables",configured="ipvs",reason="${reason}"} 1\n`
  const answerTo = async (body: string) => fallbackReason(`127.0.0.1:${await port(t, 200, body, '/metrics')}`)
  assert.equal(await answerTo(page('ipset-missing')), 'ipset-missing')
  assert.equal(await answerTo(page('')), '')
  assert.equal(await answerTo('kubeproxy_x 1\n'), '')
  assert.equal(await fallbackReason('127.0.0.1:1'), '')
})

/** A server on loopback with any behaviour. */
async function serverOf(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `127.0.0.1:${(server.address() as AddressInfo).port}` // it listens on a port
}

test('an endless answer is read up to a bound', async (t) => {
  let [sent, ended] = [0, 0]
  const address = await serverOf(t, (_request, response) => {
    const piece = Buffer.alloc(1 << 18, 'a')
    const more = (): void => {
      while (!response.destroyed && response.write(piece)) sent += piece.length
      sent += piece.length
      response.once('drain', more)
    }
    response.on('close', () => ended++)
    more()
  })
  assert.equal(await runningMode(address), undefined)
  assert.equal(await fallbackReason(address), '')
  assert.ok(sent < 64 << 20, `${sent} bytes were taken`)
  while (ended < 2) await new Promise(setImmediate)
})

test('an answer is never decompressed, whatever the listener says it is', async (t) => {
  for (const [name, encode] of [
    ['br', brotliCompressSync],
    ['gzip', gzipSync],
  ] as const) {
    const address = await serverOf(t, (_request, response) =>
      response.writeHead(200, { 'content-encoding': name }).end(encode('ipvs')),
    )
    assert.equal(await runningMode(address), undefined)
  }
})

test('a redirect is no answer', async (t) => {
  const there = await port(t, 200, 'ipvs')
  const address = await serverOf(t, (_request, response) =>
    response.writeHead(302, { location: `http://127.0.0.1:${there}/proxyMode` }).end('ipvs'),
  )
  assert.equal(await runningMode(address), undefined)
})

test('a page of unfinished metrics takes linear time', async (t) => {
  const page = 'kubeipvs_mode{\n'.repeat(100_000)
  const address = await serverOf(t, (_request, response) => response.end(page))
  const startedMs = performance.now()
  assert.equal(await fallbackReason(address), '')
  // The square of the length took minutes.
  assert.ok(performance.now() - startedMs < deadline(3000))
})

test('what another user listens with is neither asked nor believed', async (t) => {
  let asked = 0
  const address = await serverOf(t, (_request, response) => {
    asked++
    response.end('iptables')
  })
  const warnings: string[] = []
  const warn = (text: string): void => void warnings.push(text)
  for (const user of [1000, 65_534]) {
    assert.equal(await runningMode(address, { warn, userOf: async () => user }), undefined)
    assert.deepEqual(await runningProxy(address, { warn, userOf: async () => user }), { mode: null, isOurs: false })
  }
  assert.equal(asked, 0)
  assert.match(warnings[0] ?? '', /^what listens at 127\.0\.0\.1:\d+ belongs to the user 1000 and is no proxy/)
  for (const user of [0, process.getuid?.(), undefined])
    assert.equal(await runningMode(address, { warn, userOf: async () => user }), 'iptables')
})
