/** Real connections through the daemon's table: balancing, draining, restarts. */
import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually, resetNode, service, sh, slice, virtualServers, Workbench } from '../support/daemon.ts'
import { Conversation, Pod } from '../support/pods.ts'

const VIP = '10.96.0.1'
const PODS = ['10.244.0.1', '10.244.0.2']
let pods: Pod[] = []
let bench: Workbench
let conversations: Conversation[] = []

before(async () => {
  sh('ip link set lo up; sysctl -q -w net.ipv4.ip_forward=1')
  pods = [await Pod.start('a', '10.244.0.1'), await Pod.start('b', '10.244.0.2')]
})
after(() => {
  for (const pod of pods) pod.stop()
})
beforeEach(resetNode)
afterEach(async () => {
  for (const conversation of conversations) conversation.close()
  conversations = []
  await bench.close()
})

async function withWeb(ipvs: Readonly<Record<string, unknown>> = {}) {
  bench = new Workbench(ipvs)
  endpoints(PODS)
  const daemon = bench.start()
  await eventually(async () => (await talk()).close())
  return daemon
}
function endpoints(addresses: readonly string[]): void {
  bench.write('web.yaml', service('web', { clusterIP: VIP }), slice('web', addresses))
}
async function talk(): Promise<Conversation> {
  const conversation = await Conversation.open(VIP, 80)
  conversations.push(conversation)
  return conversation
}
/** Opens connections until both pods have answered one, which it returns. */
async function oneToEach(): Promise<Map<string, Conversation>> {
  const found = new Map<string, Conversation>()
  for (let tries = 0; found.size < PODS.length; tries++) {
    assert.ok(tries < 20, 'both pods get connections')
    const conversation = await talk()
    found.set(await conversation.ask(), conversation)
  }
  return found
}
const realServer = (address: string): string | undefined =>
  virtualServers().find((line) => line.includes(`-r ${address}:`))

describe('traffic', () => {
  it('is balanced over the real servers', async () => {
    await withWeb()
    assert.deepEqual([...(await oneToEach()).keys()].sort(), ['a', 'b'])
  })

  it('of an established connection goes on while its real server drains, and the server goes after it has ended', async () => {
    await withWeb()
    const toA = (await oneToEach()).get('a')
    assert.ok(toA)
    endpoints(['10.244.0.2'])
    await eventually(() => assert.match(realServer('10.244.0.1') ?? '', /-w 0$/), 2000)
    assert.equal(await toA.ask(), 'a')
    for (let index = 0; index < 6; index++) assert.equal(await (await talk()).ask(), 'b')
    const { code } = await bench.command('diff')
    assert.equal(code, 0, 'a drain in progress is no difference')
    await sleep(2500)
    assert.match(realServer('10.244.0.1') ?? '', /-w 0$/)
    for (const conversation of conversations) conversation.close()
    // The kernel forgets a reset connection after ten seconds; looks are up to 30 s apart.
    await eventually(() => assert.equal(realServer('10.244.0.1'), undefined), 60_000)
  })

  it('keeps its connection when a draining endpoint returns: weight back in place', async () => {
    await withWeb()
    const toA = (await oneToEach()).get('a')
    assert.ok(toA)
    endpoints(['10.244.0.2'])
    await eventually(() => assert.match(realServer('10.244.0.1') ?? '', /-w 0$/), 2000)
    endpoints(PODS)
    await eventually(() => assert.match(realServer('10.244.0.1') ?? '', /-w 1$/), 2000)
    assert.equal(await toA.ask(), 'a')
    assert.equal(connectionsOf('10.244.0.1') > 0, true, 'the real server was not deleted and added')
  })

  it('is not disturbed by a restart, nor by a kill, nor by changes of other Services', async () => {
    const daemon = await withWeb()
    const both = await oneToEach()
    await bench.stop(daemon, 'SIGKILL')
    const again = bench.start()
    bench.write('other.yaml', service('other', { clusterIP: '10.96.0.2' }), slice('other', PODS))
    await eventually(() => assert.ok(virtualServers().includes('-A -t 10.96.0.2:80 -s rr')))
    bench.remove('other.yaml')
    await eventually(() => assert.ok(!virtualServers().includes('-A -t 10.96.0.2:80 -s rr')))
    await bench.stop(again)
    for (const [name, conversation] of both) assert.equal(await conversation.ask(), name)
  })

  it('continues a drain after a restart', async () => {
    const daemon = await withWeb()
    await oneToEach()
    endpoints(['10.244.0.2'])
    await eventually(() => assert.match(realServer('10.244.0.1') ?? '', /-w 0$/), 2000)
    await bench.stop(daemon)
    bench.start()
    await sleep(3000)
    assert.match(realServer('10.244.0.1') ?? '', /-w 0$/)
    for (const conversation of conversations) conversation.close()
    await eventually(() => assert.equal(realServer('10.244.0.1'), undefined), 60_000)
  })

  for (const scheduler of ['rr', 'wrr', 'lc', 'wlc', 'sh', 'mh', 'sed', 'nq'])
    it(`refuses nobody while a real server drains, with ${scheduler}`, async () => {
      await withWeb({ scheduler })
      await oneToEachOrAny()
      endpoints(['10.244.0.2'])
      await eventually(() => assert.match(realServer('10.244.0.1') ?? '-w 0', /-w 0$/), 2000)
      for (let index = 0; index < 20; index++) assert.equal(await (await talk()).ask(), 'b')
    })

  it('is refused at once without endpoints', async () => {
    await withWeb()
    endpoints([])
    await eventually(() => assert.rejects(talk(), { code: 'ECONNREFUSED' }))
  })
})

/** Hashing schedulers may send all connections of one client to one server. */
async function oneToEachOrAny(): Promise<void> {
  for (let index = 0; index < 10; index++) await (await talk()).ask()
}

/** Active and inactive connections of a real server. */
function connectionsOf(address: string): number {
  const line = sh('ipvsadm -L -n')
    .split('\n')
    .find((it) => it.includes(`${address}:8080`))
  const [active, inactive] = line?.trim().split(/\s+/).slice(-2) ?? []
  return Number(active ?? 0) + Number(inactive ?? 0)
}
