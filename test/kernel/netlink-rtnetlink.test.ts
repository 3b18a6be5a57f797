/**
 * Links, addresses, routes and their announcements on a real kernel, with the JSON of `ip` as the
 * judge. Needs root and dummy interfaces; the tests make their own interfaces and delete them.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { openNetlinkConnection, openRtnetlink, openRtnetlinkEvents } from '../../native/open.ts'
import { libc } from '../../native/libc.ts'
import { NetlinkSocket } from '../../native/netlink-socket.ts'
import { encodeAddAddress, encodeDeleteAddress, IFA_F_NODAD, RT_SCOPE_HOST } from '../../src/netlink/address-codec.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import {
  NETLINK_ROUTE,
  RTNLGRP_IPV4_IFADDR,
  RTNLGRP_IPV4_ROUTE,
  RTNLGRP_IPV6_IFADDR,
  RTNLGRP_LINK,
} from '../../src/netlink/constants.ts'
import { KernelError } from '../../src/netlink/errors.ts'
import { encodeCreateDummy } from '../../src/netlink/link-codec.ts'
import {
  encodeAddRoute,
  encodeDeleteRoute,
  type Route,
  RT_TABLE_LOCAL,
  RTN_LOCAL,
  RTN_UNICAST,
  RTPROT_STATIC,
} from '../../src/netlink/route-codec.ts'
import type { RtnetlinkConnection } from '../../src/netlink/rtnetlink.ts'
import type { RtnetlinkEvent } from '../../src/netlink/rtnetlink-events.ts'
import { errorMessage } from '../netlink/wire.ts'
import { oneByOne } from '../support/budgets.ts'
import { until } from '../support/deadline.ts'

const NAME = 'nltest0'
/** IFF_UP of linux/if.h */
const IFF_UP = 0x1

function ip(...args: string[]): unknown {
  const text = execFileSync('ip', ['-j', ...args], { encoding: 'utf8' })
  return text.trim() === '' ? [] : JSON.parse(text)
}

const NO_LOSS = { onOverrun: assert.fail, onFailure: (cause: unknown) => assert.fail(String(cause)) }

describe('rtnetlink on a real kernel', () => {
  let rtnetlink: RtnetlinkConnection
  let index = 0

  before(async () => {
    rtnetlink = openRtnetlink()
    await rtnetlink.createDummy(NAME)
    const link = await rtnetlink.getLink(NAME)
    assert.ok(link)
    index = link.index
  })

  after(async () => {
    const link = await rtnetlink.getLink(NAME)
    if (link !== undefined) await rtnetlink.deleteLink(link.index)
    rtnetlink.close()
  })

  it('getLink reads what ip reads', async () => {
    const [row] = ip('link', 'show', 'dev', NAME) as [{ ifindex: number; mtu: number; operstate: string }]
    assert.deepEqual(await rtnetlink.getLink(NAME), {
      index: row.ifindex,
      name: NAME,
      kind: 'dummy',
      flags: 0x82,
      mtu: row.mtu,
      operState: 'down',
    })
    assert.equal(row.operstate, 'DOWN')
  })

  it('getLink is undefined for a name that no link has', async () => {
    assert.equal(await rtnetlink.getLink('nltest-none'), undefined)
  })

  it('listLinks lists what ip lists', async () => {
    const rows = ip('link', 'show') as { ifindex: number; ifname: string; mtu: number }[]
    const links = await rtnetlink.listLinks()
    assert.deepEqual(
      links.map(({ index: ifindex, name: ifname, mtu }) => ({ ifindex, ifname, mtu })),
      rows.map(({ ifindex, ifname, mtu }) => ({ ifindex, ifname, mtu })),
    )
    assert.equal(links.find(({ name }) => name === 'lo')?.kind, '')
  })

  it('createDummy refuses a name that another link has', async () => {
    await assert.rejects(
      rtnetlink.createDummy(NAME),
      (error) => error instanceof KernelError && error.code === 'EEXIST',
    )
  })

  it('getLink reads whether the interface is up', async () => {
    ip('link', 'set', NAME, 'up')
    assert.equal(((await rtnetlink.getLink(NAME))?.flags ?? 0) & IFF_UP, IFF_UP)
    ip('link', 'set', NAME, 'down')
    assert.equal(((await rtnetlink.getLink(NAME))?.flags ?? 0) & IFF_UP, 0)
  })

  it('addresses are added, listed as ip lists them, and deleted', async () => {
    const batch = new MessageBatch()
    const wanted = [
      { address: '10.96.0.1', prefixLength: 32, interfaceIndex: index },
      { address: '10.96.7.0', prefixLength: 24, interfaceIndex: index, scope: RT_SCOPE_HOST },
      { address: 'fd00::a', prefixLength: 128, interfaceIndex: index, flags: IFA_F_NODAD },
    ]
    for (const address of wanted) encodeAddAddress(batch, address)
    assert.deepEqual(await rtnetlink.transact(batch), [undefined, undefined, undefined])

    const listed = await rtnetlink.listAddresses({ interfaceIndex: index })
    const [row] = ip('addr', 'show', 'dev', NAME) as [
      { addr_info: { family: string; local: string; prefixlen: number; scope: string }[] },
    ]
    assert.deepEqual(
      listed.map(({ family, address, prefixLength, scope }) => [
        family === 'IPv4' ? 'inet' : 'inet6',
        address,
        prefixLength,
        scope,
      ]),
      row.addr_info.map(({ family, local, prefixlen, scope }) => [
        family,
        local,
        prefixlen,
        scope === 'host' ? 254 : 0,
      ]),
    )
    assert.deepEqual(listed.map(({ address }) => address).sort(), ['10.96.0.1', '10.96.7.0', 'fd00::a'])

    batch.reset()
    encodeAddAddress(batch, { address: '10.96.0.1', prefixLength: 32, interfaceIndex: index })
    for (const address of wanted) encodeDeleteAddress(batch, address)
    encodeDeleteAddress(batch, { address: '10.96.9.9', prefixLength: 32, interfaceIndex: index })
    encodeAddAddress(batch, { address: '10.96.0.1', prefixLength: 32, interfaceIndex: 999_999 })
    const outcomes = await rtnetlink.transact(batch)
    assert.deepEqual(
      outcomes.map((outcome) => outcome?.code),
      ['EEXIST', undefined, undefined, undefined, 'EADDRNOTAVAIL', 'ENODEV'],
    )
    assert.deepEqual(await rtnetlink.listAddresses({ interfaceIndex: index }), [])
  })

  it('listAddresses of a deleted interface is empty', async () => {
    assert.deepEqual(await rtnetlink.listAddresses({ interfaceIndex: 999_999 }), [])
  })

  it('an error carries the kernel text of its extended ACK', async () => {
    ip('link', 'set', NAME, 'up')
    const batch = new MessageBatch()
    encodeAddRoute(batch, {
      family: 'IPv4',
      destination: '10.98.0.0',
      prefixLength: 16,
      gateway: '203.0.113.1',
      table: 1000,
      type: RTN_UNICAST,
      scope: 0,
      protocol: RTPROT_STATIC,
      outInterfaceIndex: index,
    })
    const [outcome] = await rtnetlink.transact(batch)
    assert.equal(outcome?.code, 'ENETUNREACH')
    assert.equal(outcome?.extendedAck.text, 'Nexthop has invalid gateway')
    assert.match(outcome?.message ?? '', /^RTM_NEWROUTE.*: ENETUNREACH \(Nexthop has invalid gateway\)$/)
  })

  it('routes are added, listed and deleted', async () => {
    ip('link', 'set', NAME, 'up')
    const routes: Route[] = [
      {
        family: 'IPv4',
        destination: '10.97.0.0',
        prefixLength: 16,
        table: 1000,
        type: RTN_UNICAST,
        scope: 253,
        protocol: RTPROT_STATIC,
        outInterfaceIndex: index,
      },
      {
        family: 'IPv4',
        destination: '10.98.0.1',
        prefixLength: 32,
        table: RT_TABLE_LOCAL,
        type: RTN_LOCAL,
        scope: 254,
        protocol: RTPROT_STATIC,
        outInterfaceIndex: index,
      },
      {
        family: 'IPv6',
        destination: 'fd97::',
        prefixLength: 64,
        table: 254,
        type: RTN_UNICAST,
        scope: 0,
        protocol: RTPROT_STATIC,
        outInterfaceIndex: index,
        // What a request without a priority gets.
        priority: 1024,
      },
    ]
    const batch = new MessageBatch()
    for (const route of routes) encodeAddRoute(batch, route)
    assert.deepEqual(await rtnetlink.transact(batch), [undefined, undefined, undefined])
    const ours = async (): Promise<Route[]> =>
      (await rtnetlink.listRoutes()).filter(({ protocol }) => protocol === RTPROT_STATIC)
    assert.deepEqual(await ours(), routes)
    const [shown] = ip('route', 'show', 'table', '1000') as [{ dst: string; dev: string }]
    assert.deepEqual([shown.dst, shown.dev], ['10.97.0.0/16', NAME])
    batch.reset()
    for (const route of routes) encodeDeleteRoute(batch, route)
    assert.deepEqual(await rtnetlink.transact(batch), [undefined, undefined, undefined])
    assert.deepEqual(await ours(), [])
    ip('link', 'set', NAME, 'down')
  })

  it('listGateways finds those of networks and of default routes; listTunnelPeers reads the forwarding entries of all devices', async () => {
    ip('link', 'add', 'nltest1', 'type', 'dummy')
    ip('link', 'set', 'nltest1', 'up')
    ip('address', 'add', '198.18.9.1/24', 'dev', 'nltest1')
    ip('route', 'add', '198.18.20.0/24', 'via', '198.18.9.2')
    ip('route', 'add', 'default', 'via', '198.18.9.3', 'dev', 'nltest1', 'table', '77')
    const { defaults, all } = await rtnetlink.listGateways()
    assert.deepEqual([...defaults].sort(), ['198.18.9.3'])
    assert.deepEqual([...all].sort(), ['198.18.9.2', '198.18.9.3'])
    // No device of the kernels of these tests has hosts behind it; the entries of eth0 and others have none.
    assert.deepEqual([...(await rtnetlink.listTunnelPeers())], [])
    ip('link', 'delete', 'nltest1')
  })

  it('openRtnetlinkEvents announces links, addresses and routes that others change', async () => {
    const events: RtnetlinkEvent[] = []
    const subscription = openRtnetlinkEvents(
      { groups: [RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_IFADDR] },
      (event) => events.push(event),
      NO_LOSS,
    )
    try {
      ip('link', 'add', 'nltest1', 'type', 'dummy')
      ip('addr', 'add', '10.99.0.1/32', 'dev', 'nltest1')
      ip('addr', 'add', 'fd99::1/128', 'dev', 'nltest1')
      ip('link', 'del', 'nltest1')
      await until('the deletion of nltest1', () =>
        events.some((event) => event.kind === 'link' && event.change === 'deleted'),
      )
      const added = events.find((event) => event.kind === 'link')
      assert.ok(added?.kind === 'link' && added.change === 'new' && added.link.name === 'nltest1')
      const addresses = events.flatMap((event) =>
        event.kind === 'address' ? [`${event.change} ${event.address.address}`] : [],
      )
      assert.deepEqual(
        addresses.filter((text) => text.includes('10.99')),
        ['new 10.99.0.1', 'deleted 10.99.0.1'],
      )
      assert.ok(addresses.includes('new fd99::1'))
      assert.ok(
        events.some(
          (event) =>
            event.kind === 'route' && event.route.destination === '10.99.0.1' && event.route.type === RTN_LOCAL,
        ),
      )
    } finally {
      subscription.close()
    }
  })

  it('openRtnetlinkEvents omits changes of ignored port ids and only those', async () => {
    const others = openRtnetlink()
    const events: RtnetlinkEvent[] = []
    const subscription = openRtnetlinkEvents(
      { groups: [RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR], ignorePortIds: [1, rtnetlink.portId] },
      (event) => events.push(event),
      NO_LOSS,
    )
    try {
      const batch = new MessageBatch()
      encodeAddAddress(batch, { address: '10.96.1.1', prefixLength: 32, interfaceIndex: index })
      await rtnetlink.transact(batch)
      batch.reset()
      encodeAddAddress(batch, { address: '10.96.1.2', prefixLength: 32, interfaceIndex: index })
      await others.transact(batch)
      await until('the address of the other socket', () => events.length > 0)
      const seen = events.flatMap((event) => (event.kind === 'address' ? [event.address.address] : []))
      assert.deepEqual(seen, ['10.96.1.2'])
    } finally {
      subscription.close()
      others.close()
      const batch = new MessageBatch()
      for (const address of ['10.96.1.1', '10.96.1.2'])
        encodeDeleteAddress(batch, { address, prefixLength: 32, interfaceIndex: index })
      await rtnetlink.transact(batch)
    }
  })

  it('openRtnetlinkEvents reports an overrun once and continues after it', async () => {
    const seen: string[] = []
    const subscription = openRtnetlinkEvents(
      { groups: [RTNLGRP_IPV4_IFADDR], receiveBufferBytes: 32 << 10 },
      ({ kind }) => seen.push(kind),
      { ...NO_LOSS, onOverrun: ({ code }) => seen.push(code) },
    )
    try {
      for (const encode of [encodeAddAddress, encodeDeleteAddress]) {
        seen.length = 0
        // Nothing is read while this runs: transact never leaves the call when the kernel answers at once.
        const pending: Promise<unknown>[] = []
        for (let round = 0; round < 10; round++) {
          const batch = new MessageBatch()
          for (let i = 0; i < 100; i++)
            encode(batch, { address: `10.100.${round}.${i}`, prefixLength: 32, interfaceIndex: index })
          pending.push(rtnetlink.transact(batch))
        }
        await Promise.all(pending)
        await until('an overrun', () => seen.includes('netlink-overrun'))
        assert.equal(seen.filter((kind) => kind === 'netlink-overrun').length, 1)
        assert.equal(seen.at(-1), 'netlink-overrun')

        seen.length = 0
        const batch = new MessageBatch()
        encodeAddAddress(batch, { address: '10.101.0.1', prefixLength: 32, interfaceIndex: index })
        encodeDeleteAddress(batch, { address: '10.101.0.1', prefixLength: 32, interfaceIndex: index })
        await rtnetlink.transact(batch)
        await until('events after the overrun', () => seen.length === 2)
      }
    } finally {
      subscription.close()
    }
  })

  it('transact reports lost replies as netlink-overrun and works after it', async () => {
    // Every message fails and so is answered; the smallest buffer the kernel allows holds a few answers only.
    const small = openNetlinkConnection(NETLINK_ROUTE, { receiveBufferBytes: 1 })
    try {
      const batch = new MessageBatch()
      for (let i = 0; i < 200; i++) encodeCreateDummy(batch, NAME)
      await assert.rejects(small.transact(batch), { code: 'netlink-overrun' })
      batch.reset()
      encodeCreateDummy(batch, NAME)
      assert.deepEqual(
        (await small.transact(batch)).map((outcome) => outcome?.code),
        ['EEXIST'],
      )
    } finally {
      small.close()
    }
  })

  it('receive ignores what another process sends to the socket', () => {
    const [victim, attacker] = [NetlinkSocket.open(NETLINK_ROUTE), NetlinkSocket.open(NETLINK_ROUTE)]
    try {
      const address = Buffer.alloc(12)
      address.writeUInt16LE(16, 0)
      address.writeUInt32LE(victim.portId, 4)
      const forged = errorMessage(0, 1)
      assert.equal(Number(libc().sendto(attacker.fd, forged, forged.length, 0, address, address.length)), forged.length)
      assert.equal(victim.receive(), undefined)
      // The datagram did arrive: the queue is empty only because it was read and dropped.
      const raw = new Uint8Array(64)
      assert.equal(Number(libc().sendto(attacker.fd, forged, forged.length, 0, address, address.length)), forged.length)
      assert.equal(
        Number(libc().recvfrom(victim.fd, raw, raw.length, 0x40, new Uint8Array(12), new Uint8Array([12, 0, 0, 0]))),
        forged.length,
      )
    } finally {
      victim.close()
      attacker.close()
    }
  })

  it('receive reports a datagram that does not fit and makes room for the next', async () => {
    // One attribute each of 60,000 bytes: the kernel echoes the request whole to a socket without NETLINK_CAP_ACK.
    const socket = NetlinkSocket.open(NETLINK_ROUTE)
    try {
      const off = new Uint8Array(4)
      assert.equal(libc().setsockopt(socket.fd, 270, 10, off, 4), 0)
      const batch = new MessageBatch()
      batch.begin(17, 0, 'RTM_DELLINK').header(16)
      for (let i = 0; i < 2; i++) batch.binary(100, new Uint8Array(60_000))
      batch.end()
      socket.send(batch.seal(1, true))
      assert.throws(() => socket.receive(), { code: 'netlink-truncated' })
      socket.send(batch.seal(2, true))
      assert.ok((socket.receive()?.length ?? 0) > 120_000)
    } finally {
      socket.close()
    }
  })

  it('dump survives being aborted half way', async () => {
    // So many that the kernel answers in many datagrams.
    const addresses = Array.from({ length: 1000 }, (_, i) => `10.102.${i >> 8}.${i & 255}`)
    const transact = async (encode: typeof encodeAddAddress): Promise<void> => {
      for (let first = 0; first < addresses.length; first += 200) {
        const batch = new MessageBatch()
        for (const address of addresses.slice(first, first + 200))
          encode(batch, { address, prefixLength: 32, interfaceIndex: index })
        await rtnetlink.transact(batch)
      }
    }
    await transact(encodeAddAddress)
    const abort = new AbortController()
    const aborted = rtnetlink.listAddresses({ signal: abort.signal, budget: oneByOne() })
    abort.abort(new Error('enough'))
    await assert.rejects(aborted, /enough/)
    assert.equal((await rtnetlink.listAddresses({ interfaceIndex: index })).length, 1000)
    await transact(encodeDeleteAddress)
  })
})
