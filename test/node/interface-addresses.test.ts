import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { InterfaceAddress as Listed } from '../../src/netlink/address-codec.ts'
import type { Link } from '../../src/netlink/link-codec.ts'
import { InterfaceAddresses } from '../../src/node/interface-addresses.ts'

const NAMES = ['', 'eth0', 'kube-ipvs0']
const listed = (interfaceIndex: number, address: string): Listed => ({
  family: 'IPv4',
  address,
  prefixLength: 24,
  interfaceIndex,
  scope: 0,
  flags: 0,
})

let kernel: Listed[] = []
let reads = 0
let seen: string[][] = []
let errors: unknown[] = []
let failing = false
let nowMs = 0
let addresses: InterfaceAddresses

beforeEach(() => {
  kernel = [listed(1, '10.0.0.1'), listed(2, '10.96.0.1')]
  reads = 0
  seen = []
  errors = []
  failing = false
  nowMs = 0
  const rtnetlink = {
    listLinks: async () =>
      NAMES.map((name, index): Link => ({ name, index, kind: '', flags: 0, mtu: 1500, operState: 'up' })),
    listAddresses: async () => {
      reads++
      if (failing) throw new Error('no')
      return kernel
    },
  }
  addresses = new InterfaceAddresses({
    rtnetlink,
    now: () => nowMs,
    onChange: (list) => seen.push(list.map((it) => `${it.interfaceName} ${it.address}`)),
    onError: (error) => errors.push(error),
    signal: new AbortController().signal,
    removalDelayMs: 1000,
    minPeriodMs: 10,
  })
})
afterEach(() => addresses.close())

/** Moves the clock forward and waits for the reads that are due. */
async function pass(t: TestContext, milliseconds: number): Promise<void> {
  nowMs += milliseconds
  t.mock.timers.tick(milliseconds)
  for (let turns = 0; turns < 3; turns++) await turn()
}

describe('InterfaceAddresses', () => {
  it('ignores the addresses of kube-ipvs0', async () => {
    await addresses.read()
    assert.deepEqual(seen, [['eth0 10.0.0.1']])
  })

  it('adds a new address at once and drops a removed one after the delay', async () => {
    await addresses.read()
    kernel = [listed(1, '10.0.0.2')]
    await addresses.read()
    assert.deepEqual(seen.at(-1), ['eth0 10.0.0.1', 'eth0 10.0.0.2'])
    nowMs = 999
    await addresses.read()
    assert.equal(seen.length, 2)
    nowMs = 1000
    await addresses.read()
    assert.deepEqual(seen.at(-1), ['eth0 10.0.0.2'])
  })

  it('keeps an address that is added again before the delay ends', async () => {
    await addresses.read()
    kernel = []
    await addresses.read()
    kernel = [listed(1, '10.0.0.1')]
    nowMs = 900
    await addresses.read()
    kernel = []
    nowMs = 1800
    await addresses.read()
    assert.equal(seen.length, 1)
  })

  it('reads once after many announcements', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    await addresses.read()
    for (let index = 0; index < 100; index++) addresses.changed()
    await pass(t, 9)
    assert.equal(reads, 1)
    await pass(t, 1)
    assert.equal(reads, 2)
    await pass(t, 60_000)
    assert.equal(reads, 2)
  })

  it('reports a failed read and reads again after the next announcement', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    await addresses.read()
    failing = true
    addresses.changed()
    await pass(t, 10)
    assert.equal(errors.length, 1)
    failing = false
    kernel.push(listed(1, '10.0.0.3'))
    addresses.changed()
    await pass(t, 10)
    assert.deepEqual(seen.at(-1), ['eth0 10.0.0.1', 'eth0 10.0.0.3'])
  })

  it('reads again some seconds after a failed read, and reports the first result also when there is no address', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    failing = true
    await assert.rejects(addresses.read())
    addresses.changed()
    await pass(t, 10)
    assert.deepEqual([errors.length, addresses.isKnown, seen], [1, false, []])
    failing = false
    kernel = []
    await pass(t, 5000)
    assert.deepEqual([errors.length, addresses.isKnown, seen], [1, true, [[]]])
    await pass(t, 60_000)
    assert.equal(reads, 3)
  })
})

it('InterfaceAddresses reports nothing, and reads nothing more, when it was closed during a read', async () => {
  const abort = new AbortController()
  const answers: (() => void)[] = []
  let changes = 0
  let asked = 0
  const closed = new InterfaceAddresses({
    rtnetlink: {
      listLinks: async () => [],
      listAddresses: () => {
        asked++
        return new Promise((resolve) => answers.push(() => resolve([listed(1, '10.0.0.1')])))
      },
    },
    now: () => 0,
    onChange: () => changes++,
    onError: () => changes++,
    signal: abort.signal,
    minPeriodMs: 0,
  })
  closed.changed()
  while (asked === 0) await turn()
  // Another announcement during the read asks for the next one.
  closed.changed()
  abort.abort()
  closed.close()
  answers[0]?.()
  for (let turns = 0; turns < 20; turns++) await turn()
  assert.deepEqual([changes, asked], [0, 1])
})
