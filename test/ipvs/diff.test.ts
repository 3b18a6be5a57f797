import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  diffVirtualServer,
  drainingRealServers,
  stepVirtualServer,
  stepVirtualServerThrough,
} from '../../src/ipvs/diff.ts'
import {
  compareRealServers,
  directionOf,
  type RealServer,
  realServerKey,
  type VirtualServer,
} from '../../src/ipvs/types.ts'
import {
  liveVirtualServer,
  makeRealServer,
  makeVirtualServer,
  wantedVirtualServer,
} from '../support/virtual-servers.ts'
import fc from 'fast-check'

const KEY = '10.96.0.1:80/tcp'
const server = (address: string, weight = 1) => makeRealServer(address, weight, 8080)
const virtual = (servers: readonly RealServer[], more: Partial<VirtualServer> = {}) =>
  makeVirtualServer('10.96.0.1', servers, more)
const kinds = (desired?: VirtualServer, live?: VirtualServer, idle?: ReadonlySet<string>): string[] =>
  diffVirtualServer(KEY, desired, live, idle).map((op) =>
    'realServer' in op ? `${op.kind} ${op.realServer.address} w${op.realServer.weight}` : op.kind,
  )

describe('diffVirtualServer', () => {
  const rows: { name: string; desired?: VirtualServer; live?: VirtualServer; idle?: string[]; ops: string[] }[] = [
    {
      name: 'adds a virtual server before its real servers',
      desired: virtual([server('1.1.1.1')]),
      ops: ['add-virtual-server', 'add-real-server 1.1.1.1 w1'],
    },
    { name: 'deletes a virtual server at once', live: virtual([server('1.1.1.1')]), ops: ['delete-virtual-server'] },
    {
      name: 'edits fields in place',
      desired: virtual([], { scheduler: 'lc' }),
      live: virtual([]),
      ops: ['edit-virtual-server'],
    },
    {
      name: 'adds before it drains',
      desired: virtual([server('2.2.2.2')]),
      live: virtual([server('1.1.1.1')]),
      ops: ['add-real-server 2.2.2.2 w1', 'edit-real-server 1.1.1.1 w0'],
    },
    { name: 'leaves a drain alone', desired: virtual([]), live: virtual([server('1.1.1.1', 0)]), ops: [] },
    {
      name: 'deletes an idle drain',
      desired: virtual([]),
      live: virtual([server('1.1.1.1', 0)]),
      idle: ['1.1.1.1:8080'],
      ops: ['delete-real-server 1.1.1.1 w0'],
    },
    {
      name: 'never deletes a server with weight because it is idle',
      desired: virtual([]),
      live: virtual([server('1.1.1.1', 1)]),
      idle: ['1.1.1.1:8080'],
      ops: ['edit-real-server 1.1.1.1 w0'],
    },
    {
      name: 'gives a returning server its weight back in place',
      desired: virtual([server('1.1.1.1')]),
      live: virtual([server('1.1.1.1', 0)]),
      ops: ['edit-real-server 1.1.1.1 w1'],
    },
    {
      name: 'deletes udp servers at once',
      desired: virtual([], { protocol: 'udp' }),
      live: virtual([server('1.1.1.1')], { protocol: 'udp' }),
      ops: ['delete-real-server 1.1.1.1 w1'],
    },
    {
      name: 'deletes sctp servers at once',
      desired: virtual([], { protocol: 'sctp' }),
      live: virtual([server('1.1.1.1', 0)], { protocol: 'sctp' }),
      ops: ['delete-real-server 1.1.1.1 w0'],
    },
  ]
  for (const row of rows)
    it(row.name, () => assert.deepEqual(kinds(row.desired, row.live, row.idle && new Set(row.idle)), row.ops))

  it('is empty between equal virtual servers', () => {
    fc.assert(fc.property(wantedVirtualServer, (it) => diffVirtualServer(KEY, it, structuredClone(it)).length === 0))
  })

  it('leads from live to desired when stepped through, up to draining', () => {
    fc.assert(
      fc.property(wantedVirtualServer, fc.option(liveVirtualServer, { nil: undefined }), (wanted, live) => {
        const desired =
          live === undefined
            ? wanted
            : { ...wanted, family: live.family, address: live.address, port: live.port, protocol: live.protocol }
        const after = diffVirtualServer(KEY, desired, live).reduce(stepVirtualServer, live)
        assert.ok(after !== undefined)
        const draining = new Set(drainingRealServers(desired, after))
        const kept = after.realServers.filter((it) => !draining.has(realServerKey(it)))
        assert.deepEqual({ ...after, realServers: kept }, desired)
        assert.deepEqual(diffVirtualServer(KEY, desired, after), [])
      }),
    )
  })

  it('is stepped through at once as one by one', () => {
    fc.assert(
      fc.property(
        fc.array(wantedVirtualServer, { maxLength: 4 }),
        fc.option(liveVirtualServer, { nil: undefined }),
        (wanted, live) => {
          const ops = wanted.flatMap((desired, index) => diffVirtualServer(KEY, desired, wanted[index - 1] ?? live))
          assert.deepEqual(stepVirtualServerThrough(live, ops), ops.reduce(stepVirtualServer, live))
        },
      ),
    )
  })

  it('is stepped through in less than a thousandth of the copies that single steps make', () => {
    const servers = Array.from({ length: 20_000 }, (_, index) =>
      server(`10.1.${String(index >> 8).padStart(3, '0')}.${index & 255}`),
    ).sort(compareRealServers)
    const live = virtual(servers)
    const ops = diffVirtualServer(KEY, virtual([]), live)
    let copies = 0
    const counted = {
      ...live,
      realServers: new Proxy(live.realServers, { get: (list, name) => (copies++, Reflect.get(list, name)) }),
    }
    assert.deepEqual(stepVirtualServerThrough(counted, ops)?.realServers.length, 20_000)
    assert.ok(copies < 20_000 * 10, `${copies} looks at the list`)
  })

  it('has no prefix that leaves a virtual server without usable real servers if it has some before and after', () => {
    const hasWeight = (it: VirtualServer | undefined): boolean =>
      it?.realServers.some((real) => real.weight > 0) ?? false
    fc.assert(
      fc.property(wantedVirtualServer, liveVirtualServer, (desired, live) => {
        fc.pre(hasWeight(desired) && hasWeight(live))
        let now: VirtualServer | undefined = live
        for (const op of diffVirtualServer(KEY, desired, live)) {
          now = stepVirtualServer(now, op)
          assert.ok(hasWeight(now))
        }
      }),
    )
  })

  it('has all additions before all removals', () => {
    fc.assert(
      fc.property(wantedVirtualServer, liveVirtualServer, (desired, live) => {
        const directions = diffVirtualServer(KEY, desired, live).map(directionOf)
        assert.deepEqual(directions, directions.toSorted())
      }),
    )
  })
})
