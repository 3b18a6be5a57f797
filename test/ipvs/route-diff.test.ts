/** Operations on local routes, compared with a model of what the kernel allows. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  diffRoute,
  formatRouteOperation,
  hasPath,
  liveRoutes,
  localRoute,
  type LocalRoute,
  LOOPBACK_INDEX,
  ROUTE_PROTOCOL,
  type RouteOperation,
  type RoutePath,
  ROUTES,
  sharedPaths,
} from '../../src/ipvs/route-diff.ts'
import { familyOf } from '../../src/values/address.ts'

const V4 = '10.96.0.1'
const V6 = 'fd00::1'
const NODE = { IPv4: '192.168.0.7', IPv6: 'fd07::7' }

const slot = ({ interfaceIndex, priority }: RoutePath): string => `${interfaceIndex} ${priority}`
const name = (path: RoutePath): string => `${slot(path)} ${path.source ?? ''}`

/** A possible state of the kernel. IPv6 routes differ in interface or priority, IPv4 routes in anything. */
const live: fc.Arbitrary<LocalRoute> = fc.constantFrom(V4, V6).chain((address) => {
  const isIpv4 = familyOf(address) === 'IPv4'
  const path = fc.record({
    interfaceIndex: fc.constantFrom(LOOPBACK_INDEX, 7),
    source: isIpv4 ? fc.constantFrom(V4, NODE.IPv4, '192.168.0.8') : fc.constantFrom(undefined, NODE.IPv6, 'fd07::8'),
    priority: isIpv4 ? fc.constantFrom(0, 5) : fc.constantFrom(1024, 5),
  })
  return fc
    .uniqueArray(path, { selector: isIpv4 ? name : slot, minLength: 1, maxLength: 4 })
    .map((paths) => ({ address, paths }))
})

const wantedRoute = (address: string, hasSource: boolean): LocalRoute => {
  const family = familyOf(address)
  return localRoute(address, sharedPaths(family, hasSource ? NODE[family] : undefined))
}

/** Runs operations in the reconciler's order, additions first; fails as the kernel would. */
function run(
  from: LocalRoute | undefined,
  ops: readonly RouteOperation[],
  after: (now: LocalRoute | undefined) => void = () => undefined,
): LocalRoute | undefined {
  let now = from
  for (const direction of ['add', 'remove'] as const)
    for (const op of ops.filter((it) => ROUTES.direction(it) === direction)) {
      const hasSlot = now?.paths.some((it) => slot(it) === slot(op)) ?? false
      if (op.kind === 'add-route')
        assert.ok(familyOf(op.address) === 'IPv6' ? !hasSlot : !hasPath(now, op), `EEXIST: ${formatRouteOperation(op)}`)
      else if (op.kind === 'replace-route') assert.ok(hasSlot && familyOf(op.address) === 'IPv6')
      else assert.ok(hasPath(now, op), `ESRCH: ${formatRouteOperation(op)}`)
      now = ROUTES.step(now, op)
      after(now)
    }
  return now
}

describe('diffRoute', () => {
  it('reaches exactly the wanted route from every possible state, and removes everything when none is wanted', () => {
    fc.assert(
      fc.property(live, fc.boolean(), (before, hasSource) => {
        const wanted = wantedRoute(before.address, hasSource)
        const made = run(before, diffRoute(wanted, before))
        assert.ok(made !== undefined && ROUTES.equal(made, wanted))
        assert.deepEqual(diffRoute(wanted, made), [])
        assert.equal(run(before, diffRoute(undefined, before)), undefined)
      }),
    )
  })

  it('keeps a route to a wanted virtual IP at every moment', () => {
    fc.assert(
      fc.property(live, fc.boolean(), (before, hasSource) => {
        const ops = diffRoute(wantedRoute(before.address, hasSource), before)
        run(before, ops, (now) => assert.ok(now !== undefined))
      }),
    )
  })

  it('names every operation as an ip command', () => {
    const commands = (wanted: LocalRoute | undefined, before: LocalRoute | undefined) =>
      diffRoute(wanted, before).map(formatRouteOperation)
    const routes = { v4: wantedRoute(V4, true), v6: wantedRoute(V6, true) }
    const bare = { v4: wantedRoute(V4, false), v6: wantedRoute(V6, false) }
    assert.deepEqual(commands(routes.v4, undefined), [
      'ip route prepend local 10.96.0.1 dev lo table local src 192.168.0.7 proto 73',
    ])
    assert.deepEqual(commands(routes.v4, bare.v4), [
      'ip route prepend local 10.96.0.1 dev lo table local src 192.168.0.7 proto 73',
      'ip route delete local 10.96.0.1 dev lo table local src 10.96.0.1 proto 73',
    ])
    assert.deepEqual(commands(routes.v6, bare.v6), [
      'ip -6 route replace local fd00::1 dev lo table local src fd07::7 proto 73',
    ])
    assert.deepEqual(commands(undefined, bare.v6), ['ip -6 route delete local fd00::1 dev lo table local proto 73'])
  })
})

describe('liveRoutes', () => {
  it('lists only routes of this program, in the order of the kernel', () => {
    const own = {
      family: 'IPv4',
      destination: V4,
      prefixLength: 32,
      table: 255,
      type: 2,
      scope: 254,
      protocol: ROUTE_PROTOCOL,
      outInterfaceIndex: LOOPBACK_INDEX,
    } as const
    const found = liveRoutes([
      { ...own, preferredSource: NODE.IPv4 },
      { ...own, protocol: 2 },
      { ...own, table: 254 },
      { ...own, type: 1 },
      { ...own, prefixLength: 24 },
      { ...own, preferredSource: V4, priority: 5 },
    ])
    assert.deepEqual(
      [...found.values()],
      [
        {
          address: V4,
          paths: [
            { interfaceIndex: LOOPBACK_INDEX, source: NODE.IPv4, priority: 0 },
            { interfaceIndex: LOOPBACK_INDEX, source: V4, priority: 5 },
          ],
        },
      ],
    )
  })
})
