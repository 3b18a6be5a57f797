/**
 * Health check ports at addresses of a node: which sockets exist, what a client elsewhere gets,
 * addresses that are added late. The listeners run in this process, so nothing here may block while
 * a client waits for an answer.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, afterEach, before, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { HealthChecks, type ListenAddresses } from '../../src/serve/health-checks.ts'
import type { HealthCheck } from '../../src/serve/wanted-health-checks.ts'
import { type InterfaceAddress, healthCheckAddressesOf } from '../../src/service/node-addresses.ts'
import { IP_FAMILIES, type IpFamily } from '../../src/values/protocol.ts'
import { silentLog } from '../../src/values/log.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'

const run = promisify(execFile)
const PORT = 32001

before(() => {
  sh(`
    ip link add eth0 type veth peer name far0
    ip netns add far; ip link set far0 netns far
    ip addr add 10.0.2.15/24 dev eth0; ip addr add fd00:10:0:2::15/64 dev eth0 nodad; ip link set eth0 up
    ip -n far addr add 10.0.2.99/24 dev far0; ip -n far addr add fd00:10:0:2::99/64 dev far0 nodad
    ip -n far link set far0 up
    ip link add d1 type dummy; ip addr add 172.17.0.1/16 dev d1; ip link set d1 up
    ip link add kube-ipvs0 type dummy; ip addr add 10.96.0.1/32 dev kube-ipvs0`)
})
after(() => {
  sh('ip netns del far; ip link del eth0; ip link del d1; ip link del kube-ipvs0')
})

/** The node's addresses as the kernel lists them. */
function nodeAddresses(): InterfaceAddress[] {
  return sh('ip -o address show')
    .split('\n')
    .flatMap((line) => {
      const [, interfaceName, address] = /^\d+: (\S+)\s+inet6? ([0-9a-f.:]+)/.exec(line) ?? []
      return interfaceName === undefined || address === undefined ? [] : { interfaceName, address }
    })
}

const listenAddresses = (...configured: readonly string[]): ListenAddresses =>
  healthCheckAddressesOf(configured, nodeAddresses(), { IPv4: '10.0.2.15', IPv6: 'fd00:10:0:2::15' })

function sockets(): string[] {
  const lines = sh('ss -ltnH').split('\n')
  return lines.flatMap((line) => line.trim().split(/\s+/)[3] ?? []).sort()
}

const check = (family: IpFamily, localEndpoints: number): HealthCheck => ({
  family,
  port: PORT,
  namespace: 'demo',
  name: 'web',
  localEndpoints,
})

/** Status and weight that a client of another node gets. */
async function askFromFar(address: string): Promise<string> {
  const script = `fetch('http://${address}:${PORT}/healthz').then(
    (answer) => console.log(answer.status, answer.headers.get('x-load-balancing-endpoint-weight')),
    (error) => console.log(error.cause.code))`
  const { stdout } = await run('ip', ['netns', 'exec', 'far', process.execPath, '-e', script])
  return stdout.trim()
}

describe('health check ports', () => {
  let checks: HealthChecks
  const problems: string[] = []
  afterEach(() => checks.close())

  function open(addresses: ListenAddresses): void {
    problems.length = 0
    checks = new HealthChecks({
      nodeName: 'node0',
      isProxyHealthy: () => true,
      onProblem: (socket, problem) => problems.push(`${socket} ${problem?.message ?? 'open'}`),
      log: silentLog,
    })
    checks.listenOn(addresses)
    checks.update(IP_FAMILIES.map((family) => ({ key: `${family} ${PORT}`, check: check(family, 1) })))
  }

  it('listen on all addresses, and answer other machines in each family', async () => {
    open(listenAddresses())
    checks.update([{ key: `IPv6 ${PORT}`, check: check('IPv6', 0) }])
    await eventually(() => assert.deepEqual(sockets(), [`0.0.0.0:${PORT}`, `[::]:${PORT}`]))
    assert.equal(await askFromFar('10.0.2.15'), '200 1')
    assert.equal(await askFromFar('[fd00:10:0:2::15]'), '503 0')
  })

  it('listen only on the node port addresses, never on an address of a Service', async () => {
    open(listenAddresses('10.0.0.0/8', '127.0.0.0/8', 'fd00:10::/32'))
    const own = [`10.0.2.15:${PORT}`, `127.0.0.1:${PORT}`, `[fd00:10:0:2::15]:${PORT}`]
    await eventually(() => assert.deepEqual(sockets(), own))
    checks.listenOn(listenAddresses('172.17.0.0/16', 'fd00:10::/32'))
    await eventually(() => assert.deepEqual(sockets(), [`172.17.0.1:${PORT}`, `[fd00:10:0:2::15]:${PORT}`]))
    assert.equal(await askFromFar('10.0.2.15'), 'ECONNREFUSED')
    checks.listenOn(listenAddresses())
    await eventually(() => assert.deepEqual(sockets(), [`0.0.0.0:${PORT}`, `[::]:${PORT}`]))
    assert.deepEqual(problems, [])
    checks.update(IP_FAMILIES.map((family) => ({ key: `${family} ${PORT}`, check: undefined })))
    assert.deepEqual(sockets(), [])
  })

  it('wait for an address that does not exist yet, and report it when it takes long', async () => {
    open({ IPv4: ['10.0.2.77'], IPv6: ['fd00:10:0:2::77'] })
    // The first attempt ends after a few turns of the event loop.
    for (let turns = 0; turns < 10; turns++) await turn()
    sh('ip addr add 10.0.2.77/24 dev eth0')
    await eventually(() => assert.deepEqual(sockets(), [`10.0.2.77:${PORT}`]))
    const socket = `[fd00:10:0:2::77]:${PORT}`
    const message = `node node0 failed to start healthcheck "demo/web" on port ${PORT}: listen tcp6 ${socket}: bind: address not available`
    await eventually(() => assert.deepEqual(problems, [`${socket} ${message}`]))
    // With duplicate address detection, as addresses of a node are added.
    sh('ip addr add fd00:10:0:2::77/64 dev eth0')
    await eventually(() => assert.equal(problems.at(-1), `${socket} open`), 20_000)
    assert.deepEqual(sockets(), [`10.0.2.77:${PORT}`, socket])
    sh('ip addr del 10.0.2.77/24 dev eth0; ip addr del fd00:10:0:2::77/64 dev eth0')
  })
})
