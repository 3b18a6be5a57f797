import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { IpvsDataplane } from '../../../src/modes/ipvs/dataplane.ts'
import type { Frontend } from '../../../src/service/frontends.ts'
import { frontendOf } from '../../support/frontends.ts'
import { MemoryWorld, rulesWritten, writesRules, someTurns } from '../../support/memory-world.ts'

const signal = new AbortController().signal
const KEY = '10.96.0.1:80/tcp'

interface Running {
  readonly memory: MemoryWorld
  readonly dataplane: IpvsDataplane
  readonly pass: (mayRemove?: boolean) => Promise<unknown>
}

/** A process on a kernel, before its first frontend. A pass that finds rules to be written is followed by another. */
async function running(memory = new MemoryWorld()): Promise<Running> {
  const dataplane = memory.dataplane()
  const pass = async (mayRemove = true) => {
    await dataplane.pass({ signal, mayRemove })
    if (!writesRules(dataplane)) return
    await rulesWritten(dataplane)
    await dataplane.pass({ signal, mayRemove })
  }
  await pass(false)
  memory.journal.length = 0
  return { memory, dataplane, pass }
}

const frontend = (...addresses: string[]): Frontend => frontendOf({ bind: false }, addresses)
const weights = ({ virtualServers }: MemoryWorld) =>
  virtualServers.kernel.get(KEY)?.realServers.map((it) => `${it.address} ${it.weight}`)

describe('IpvsDataplane', () => {
  it('drains, waits for connections to end, then deletes', async () => {
    const { memory, dataplane, pass } = await running()
    dataplane.frontend(KEY, frontend('1.1.1.1', '2.2.2.2'))
    await pass()
    dataplane.frontend(KEY, frontend('2.2.2.2'))
    await pass()
    memory.connections.set('1.1.1.1:8080', { active: 0, inactive: 1 })
    assert.equal(dataplane.nextDueMs(), 1000)
    memory.nowMs = 1000
    await pass()
    assert.deepEqual(weights(memory), ['1.1.1.1 0', '2.2.2.2 1'])
    memory.connections.set('1.1.1.1:8080', { active: 0, inactive: 0 })
    memory.nowMs = dataplane.nextDueMs() ?? 0
    await pass()
    assert.deepEqual(weights(memory), ['2.2.2.2 1'])
    assert.equal(dataplane.nextDueMs(), undefined)
  })

  it('checks the drains of a bounded number of virtual servers in one pass', async () => {
    const { memory, dataplane, pass } = await running()
    const keys = Array.from({ length: 200 }, (_, index) => `10.96.1.${index}:80/tcp`)
    const at = (key: string, ...addresses: string[]): Frontend =>
      frontendOf({ bind: false, key, address: key.replace(/:.*/, '') }, addresses)
    for (const addresses of [['1.1.1.1', '2.2.2.2'], ['2.2.2.2']]) {
      for (const key of keys) dataplane.frontend(key, at(key, ...addresses))
      await pass()
    }
    let checks = 0
    memory.connectionsOf = () => {
      checks++
      return new Map([['1.1.1.1:8080', { active: 0, inactive: 0 }]])
    }
    memory.nowMs = 1000
    const perPass: number[] = []
    while ((dataplane.nextDueMs() ?? Number.POSITIVE_INFINITY) <= memory.nowMs) {
      checks = 0
      await pass()
      perPass.push(checks)
    }
    assert.deepEqual(perPass, [100, 100])
    assert.equal(dataplane.drains.count, 0)
  })

  it('lets checks of drains wait while changes wait, for five seconds at most', async () => {
    const { memory, dataplane, pass } = await running()
    dataplane.frontend(KEY, frontend('1.1.1.1', '2.2.2.2'))
    await pass()
    dataplane.frontend(KEY, frontend('2.2.2.2'))
    await pass()
    memory.connections.set('1.1.1.1:8080', { active: 0, inactive: 0 })
    const partial = () => dataplane.pass({ signal, mayRemove: true, changesWait: true })
    for (const nowMs of [1000, 5999]) {
      memory.nowMs = nowMs
      await partial()
      assert.deepEqual(weights(memory), ['1.1.1.1 0', '2.2.2.2 1'], `${nowMs} ms`)
      assert.equal(dataplane.nextDueMs(), 1000)
    }
    memory.nowMs = 6000
    await partial()
    assert.deepEqual(weights(memory), ['2.2.2.2 1'])
    // With a deadline anywhere no check waits.
    const other = frontendOf({ bind: false, key: '10.96.0.2:80/tcp', address: '10.96.0.2' }, ['3.3.3.3'])
    const choices = { ...other.servicePort.choices, drainDeadlineMs: 20_000 }
    dataplane.frontend(other.key, { ...other, servicePort: { ...other.servicePort, choices } })
    dataplane.frontend(KEY, frontend('2.2.2.2', '4.4.4.4'))
    await pass()
    dataplane.frontend(KEY, frontend('2.2.2.2'))
    await pass()
    memory.connections.set('4.4.4.4:8080', { active: 0, inactive: 0 })
    memory.nowMs = dataplane.nextDueMs() ?? 0
    await partial()
    assert.deepEqual(weights(memory), ['2.2.2.2 1'])
  })

  it('removes no address of a virtual server that it has not looked at after a restart', async () => {
    const first = await running()
    const served = frontendOf({ bind: true }, ['1.1.1.1'])
    first.dataplane.frontend(KEY, served)
    await first.pass()
    const { memory } = first
    assert.ok(memory.addresses.kernel.has('10.96.0.1'))
    memory.virtualServers.failRead = true
    const again = memory.dataplane()
    again.frontend(KEY, served)
    memory.journal.length = 0
    for (let passes = 0; passes < 2; passes++) await again.pass({ signal, mayRemove: true })
    memory.virtualServers.failRead = false
    memory.nowMs += 60_000
    await again.pass({ signal, mayRemove: true })
    assert.deepEqual(
      memory.journal.filter((command) => command.startsWith('ip address')),
      [],
    )
    // A Service that is gone by then takes its address with it, once the virtual server is gone.
    again.frontend(KEY, undefined)
    await again.pass({ signal, mayRemove: true })
    assert.deepEqual([memory.addresses.kernel.size, memory.virtualServers.kernel.size], [0, 0])
  })

  it('removes an address that was expected and is not wanted any more', async () => {
    const first = await running()
    first.dataplane.frontend(KEY, frontendOf({ bind: true }, ['1.1.1.1']))
    await first.pass()
    const { memory } = first
    memory.virtualServers.failRead = true
    const again = memory.dataplane()
    again.frontend(KEY, frontendOf({ bind: true }, ['1.1.1.1']))
    await again.pass({ signal, mayRemove: true })
    assert.equal(memory.addresses.kernel.size, 1)
    again.frontend(KEY, undefined)
    await again.pass({ signal, mayRemove: true })
    assert.equal(memory.addresses.kernel.size, 0)
  })

  it('continues a drain of an earlier process, also when it read the table before the first frontend', async () => {
    const { memory, dataplane, pass } = await running()
    dataplane.frontend(KEY, frontend('1.1.1.1', '2.2.2.2'))
    await pass()
    dataplane.frontend(KEY, frontend('2.2.2.2'))
    await pass()
    const again = await running(memory)
    again.dataplane.frontend(KEY, frontend('2.2.2.2'))
    await again.pass()
    assert.deepEqual(weights(memory), ['1.1.1.1 0', '2.2.2.2 1'])
    memory.connections.set('1.1.1.1:8080', { active: 0, inactive: 0 })
    memory.nowMs = again.dataplane.nextDueMs() ?? 0
    await again.pass()
    assert.deepEqual(weights(memory), ['2.2.2.2 1'])
  })

  it('restores the weight of a real server that returns while it drains', async () => {
    const { memory, dataplane, pass } = await running()
    for (const wanted of [frontend('1.1.1.1'), frontend(), frontend('1.1.1.1')]) {
      dataplane.frontend(KEY, wanted)
      await pass()
    }
    assert.deepEqual(weights(memory), ['1.1.1.1 1'])
    assert.equal(dataplane.nextDueMs(), undefined)
    memory.nowMs = 5000
    await pass()
    assert.deepEqual(weights(memory), ['1.1.1.1 1'])
  })

  it('leaves out frontends of a family that is not served', async () => {
    const { memory, dataplane, pass } = await running()
    dataplane.frontend(KEY, frontendOf({ servicePort: { family: 'IPv6' } }, ['1.1.1.1']))
    await pass()
    assert.deepEqual([memory.virtualServers.kernel.size, memory.entries.kernel.size], [0, 0])
  })

  it('adds an address once one of its virtual servers exists, and not before', async () => {
    const { memory, dataplane, pass } = await running()
    memory.fails = (command) => command === 'ipvsadm -A -t 10.96.0.1:80 -s rr'
    dataplane.frontend(KEY, frontendOf())
    await pass()
    assert.deepEqual([...memory.addresses.kernel.keys()], [])
    memory.fails = () => false
    memory.nowMs = 500
    await pass()
    assert.deepEqual([...memory.addresses.kernel.keys()], ['10.96.0.1'])
  })

  it('adds a new Service although the kernel refuses one of its endpoints', async () => {
    const { memory, dataplane, pass } = await running()
    memory.fails = (command) => command.includes('239.1.1.1')
    dataplane.frontend(KEY, frontendOf({}, ['1.1.1.1', '239.1.1.1']))
    await pass()
    assert.deepEqual(weights(memory), ['1.1.1.1 1'])
    assert.deepEqual([...memory.addresses.kernel.keys()], ['10.96.0.1'])
  })

  it('drains and deletes removed endpoints although the kernel refuses an added one', async () => {
    const { memory, dataplane, pass } = await running()
    memory.fails = (command) => command.startsWith('ipvsadm') && command.includes('239.1.1.1')
    dataplane.frontend(KEY, frontend('1.1.1.1', '2.2.2.2'))
    await pass()
    dataplane.frontend(KEY, frontend('2.2.2.2', '239.1.1.1'))
    await pass()
    assert.deepEqual(weights(memory), ['1.1.1.1 0', '2.2.2.2 1'])
    memory.connections.set('1.1.1.1:8080', { active: 0, inactive: 1 })
    for (; memory.nowMs < 100_000; memory.nowMs = dataplane.nextDueMs() ?? Number.POSITIVE_INFINITY) await pass()
    assert.deepEqual(weights(memory), ['1.1.1.1 0', '2.2.2.2 1'])
    memory.connections.set('1.1.1.1:8080', { active: 0, inactive: 0 })
    for (; memory.nowMs < 200_000; memory.nowMs = dataplane.nextDueMs() ?? Number.POSITIVE_INFINITY) await pass()
    assert.deepEqual(weights(memory), ['2.2.2.2 1'])
  })

  it('keeps addresses that an earlier process added', async () => {
    const { dataplane, pass, memory } = await running()
    // More than a stretch of keys: the addresses are looked at before all virtual servers are.
    const frontends = Array.from({ length: 450 }, (_, index) =>
      frontendOf({ address: `10.97.${index >> 8}.${index & 255}` }),
    )
    for (const one of frontends) dataplane.frontend(one.key, one)
    await pass()
    assert.equal(memory.addresses.kernel.size, 450)
    const again = await running(memory)
    for (const one of frontends) again.dataplane.frontend(one.key, one)
    await again.pass()
    assert.deepEqual(memory.journal, [])
  })

  it('writes the first frontends into all tables before it writes the others into any', async () => {
    const { memory, dataplane, pass } = await running()
    for (let index = 0; index < 450; index++) {
      const one = frontendOf({ address: `10.97.${index >> 8}.${index & 255}` })
      dataplane.frontend(one.key, one)
    }
    await pass()
    const bound = memory.journal.indexOf('ip address add 10.97.0.0/32 dev kube-ipvs0')
    const lastServer = memory.journal.indexOf('ipvsadm -A -t 10.97.1.193:80 -s rr')
    assert.ok(bound > 0 && bound < lastServer, `${bound} ${lastServer}`)
  })

  it('begins with the first frontends when the rules are written in the middle of a pass', async () => {
    const { memory, dataplane, pass } = await running()
    const { promise: written, resolve: write } = Promise.withResolvers<void>()
    memory.hanging.IPv4 = written
    for (let index = 0; index < 2000; index++) {
      const one = frontendOf({ address: `10.97.${index >> 8}.${index & 255}` })
      dataplane.frontend(one.key, one)
    }
    const first = dataplane.pass({ signal, mayRemove: true })
    while (dataplane.virtualServers.waitingCount === 0) await someTurns(1)
    assert.ok(dataplane.virtualServers.waitingCount < 2000, 'the pass is not over')
    write()
    await first
    await pass()
    assert.equal(memory.virtualServers.kernel.size, 2000)
    const made = memory.journal.filter((command) => command.startsWith('ipvsadm -A'))
    assert.equal(made[0], 'ipvsadm -A -t 10.97.0.0:80 -s rr')
    const bound = memory.journal.filter((command) => command.startsWith('ip address add'))
    assert.equal(bound[0], 'ip address add 10.97.0.0/32 dev kube-ipvs0')
  })

  it('leaves traffic to the chains of iptables mode until every Service has its virtual server and address', async () => {
    const memory = new MemoryWorld()
    const nat = () => memory.iptables.IPv4.tables.get('nat')
    nat()?.set('KUBE-SVC-AAAAAAAAAAAAAAAA', ['-j DNAT --to-destination 1.1.1.1:8080'])
    const old = '-d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA'
    nat()?.set('KUBE-SERVICES', [old])
    const dataplane = memory.dataplane()
    const services = Array.from({ length: 300 }, (_, index) => `10.96.${index >> 8}.${index & 255}`)
    for (const address of services) {
      const key = `${address}:80/tcp`
      dataplane.frontend(key, frontendOf({ bind: true, key, address }, ['1.1.1.1']))
    }
    const leadsToOldChain = (): boolean => nat()?.get('KUBE-SERVICES')?.[0] === old
    const early: string[] = []
    const push = memory.journal.push.bind(memory.journal)
    memory.journal.push = (...commands) => {
      const isComplete = services.every((address) => memory.addresses.kernel.has(address))
      if (!leadsToOldChain() && !isComplete) early.push(...commands)
      return push(...commands)
    }
    for (let pass = 0; pass < 4; pass++) {
      await dataplane.pass({ signal, mayRemove: true })
      await rulesWritten(dataplane)
    }
    assert.deepEqual(early, [])
    assert.equal(memory.addresses.kernel.size, services.length)
    assert.ok(!leadsToOldChain())
    assert.ok((nat()?.get('KUBE-SERVICES')?.length ?? 0) > 0)
  })
})
