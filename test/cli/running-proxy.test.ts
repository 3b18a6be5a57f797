import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { fallbackReason, runningMode } from '../../src/cli/running-proxy.ts'

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
