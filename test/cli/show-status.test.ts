import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { runningMode } from '../../src/cli/show-status.ts'

/** A port on loopback whose /proxyMode answers this. */
async function port(t: TestContext, status: number, body: string): Promise<number> {
  const server = createServer((request, response) => {
    response.writeHead(request.url === '/proxyMode' ? status : 404).end(body)
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
