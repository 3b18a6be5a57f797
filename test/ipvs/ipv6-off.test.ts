/** Addresses and local routes of IPv6 where the kernel refuses them because IPv6 is switched off on the device. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { diffAddress, hostAddress } from '../../src/ipvs/address-diff.ts'
import { AddressTable } from '../../src/ipvs/addresses.ts'
import { diffRoute, localRoute } from '../../src/ipvs/route-diff.ts'
import { RouteTable } from '../../src/ipvs/routes.ts'
import type { MessageBatch } from '../../src/netlink/batch.ts'
import { KernelError } from '../../src/netlink/errors.ts'
import { visitMessages } from '../../src/netlink/message.ts'
import { CodedError } from '../../src/values/errors.ts'

const EACCES = 13
const AF_INET6 = 10
const signal = new AbortController().signal
const LACK = new CodedError('ipv6-off', 'IPv6 is switched off')

/** A kernel that refuses everything of IPv6 while `isOff`, and remembers how many requests of each family it got. */
class Kernel {
  isOff = true
  readonly requests = { IPv4: 0, IPv6: 0 }
  readonly getLink = async (name: string) => ({
    index: 7,
    name,
    kind: 'dummy',
    flags: 0,
    mtu: 1500,
    operState: 'down' as const,
  })
  readonly listAddresses = async () => []
  readonly listRoutes = async () => []
  readonly transact = async (batch: MessageBatch) => {
    const outcomes: (KernelError | undefined)[] = []
    visitMessages(batch.bytes, ({ bytes, start }) => {
      const family = bytes[start] === AF_INET6 ? 'IPv6' : 'IPv4'
      this.requests[family]++
      outcomes.push(family === 'IPv6' && this.isOff ? new KernelError(EACCES, 'RTM_NEW') : undefined)
    })
    return outcomes
  }
}

const codes = (outcomes: readonly (Error | undefined)[]) =>
  outcomes.map((outcome) => (outcome instanceof CodedError ? outcome.code : outcome))
const ADDRESSES = ['10.96.0.1', 'fd00::1', '10.96.0.2', 'fd00::2']
const BINDS = ADDRESSES.flatMap((address) => diffAddress(hostAddress(address), undefined))

describe('AddressTable', () => {
  it('switches IPv6 on, once, when the kernel refuses IPv6 addresses, and tries those again', async () => {
    const kernel = new Kernel()
    let times = 0
    const table = new AddressTable(kernel, {
      switchOnIpv6: () => {
        times++
        kernel.isOff = false
        return 'changed'
      },
    })
    assert.deepEqual(await table.apply(BINDS, signal), [undefined, undefined, undefined, undefined])
    assert.deepEqual([times, kernel.requests], [1, { IPv4: 2, IPv6: 4 }])
    await table.apply(BINDS, signal)
    assert.equal(times, 1, 'nobody looks at the setting while the kernel takes addresses')
  })

  it('has the outcome of the second try, and makes no third one', async () => {
    const kernel = new Kernel()
    const table = new AddressTable(kernel, { switchOnIpv6: () => 'changed' })
    assert.deepEqual(codes(await table.apply(BINDS, signal)), [undefined, 'EACCES', undefined, 'EACCES'])
    assert.deepEqual(kernel.requests, { IPv4: 2, IPv6: 4 })
  })

  it('says what keeps IPv6 off, and has the answer of the kernel where that is not the reason', async () => {
    const kernel = new Kernel()
    const named = new AddressTable(kernel, { switchOnIpv6: () => LACK })
    assert.deepEqual(await named.apply(BINDS, signal), [undefined, LACK, undefined, LACK])
    const other = new AddressTable(kernel, { switchOnIpv6: () => 'unchanged' })
    assert.deepEqual(codes(await other.apply(BINDS, signal)), [undefined, 'EACCES', undefined, 'EACCES'])
    assert.deepEqual(kernel.requests, { IPv4: 4, IPv6: 4 })
  })
})

describe('RouteTable', () => {
  const routes = ADDRESSES.flatMap((address) => diffRoute(localRoute(address, undefined), undefined))

  it('says why the loopback device takes no routes of IPv6', async () => {
    const kernel = new Kernel()
    const table = new RouteTable(kernel, ['IPv4', 'IPv6'], () => LACK)
    const outcomes = await table.apply(routes, signal)
    assert.deepEqual(
      outcomes,
      routes.map(({ address }) => (address.includes(':') ? LACK : undefined)),
    )
    kernel.isOff = false
    assert.ok((await table.apply(routes, signal)).every((outcome) => outcome === undefined))
  })
})
