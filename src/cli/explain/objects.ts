/**
 * Compares what a Service needs in the kernel with what is there: one entry for each virtual server, address, set entry, chain and rule,
 * with what it means for traffic when it is missing or too much, and the commands that a pass would run.
 */
import { definitionOf, type SetRole } from '../../ipset/catalogue.ts'
import { formatEntryOperation } from '../../ipset/diff.ts'
import { roleOf } from '../../ipset/render.ts'
import type { SetEntry } from '../../ipset/types.ts'
import { diffAddress, formatAddressOperation, hostAddress } from '../../ipvs/address-diff.ts'
import { diffVirtualServer } from '../../ipvs/diff.ts'
import { isDraining } from '../../ipvs/drains.ts'
import { diffRoute, formatRouteOperation } from '../../ipvs/route-diff.ts'
import { formatOperation, schedulerFlagNames } from '../../ipvs/text.ts'
import { FLAG_PERSISTENT, type RealServer, realServerKey, type VirtualServer } from '../../ipvs/types.ts'
import type { LiveObjects, LiveVirtualServer } from '../../modes/look/live-objects.ts'
import type { WantedObject } from '../../explain/wanted-objects.ts'
import type { FrontendKey } from '../../service/frontends.ts'
import { parseFrontendKey } from '../../service/frontends.ts'
import type { Protocol } from '../../values/protocol.ts'
import type { ExplainedObject, ExplainedRealServer } from './object-types.ts'
import { compareRule, extraRules, type PortOfChains } from './rule-objects.ts'
import { absenceMeans, excessMeans } from './role-words.ts'

/** @param ports the ports of the Service whose objects these are @param frontends those that it has won */
export function compareObjects(
  wanted: readonly WantedObject[],
  live: LiveObjects,
  ports: readonly PortOfChains[],
  frontends: readonly { readonly key: FrontendKey; readonly isNodePort: boolean }[],
): readonly ExplainedObject[] {
  // In iptables mode nothing is wanted of the sets, and what is in them has no effect.
  const usesSets = wanted.some(({ kind }) => kind === 'virtual-server')
  const own = new Set(wanted.flatMap((one) => (one.kind === 'set-entry' ? [`${one.set} ${one.entry}`] : [])))
  return [
    ...wanted.map((object) => compareOne(object, live)),
    ...(usesSets ? frontends.flatMap((frontend) => extraEntries(frontend, own, live)) : []),
    ...wanted.flatMap((object) => extraAddresses(object, live)),
    ...ports.flatMap((port) => extraRules(port, wanted, live)),
  ]
}

function compareOne(object: WantedObject, live: LiveObjects): ExplainedObject {
  switch (object.kind) {
    case 'virtual-server':
      return compareVirtualServer(object.frontend, object.server, live)
    case 'set-entry':
      return compareEntry(object.frontend, object, live)
    case 'address': {
      const { frontend, address } = object
      const ops = diffAddress(hostAddress(address), live.addresses?.get(address))
      const commands = ops.map(formatAddressOperation)
      return addressObject('address', frontend, address, 'kube-ipvs0', live.addresses?.has(address) === true, commands)
    }
    case 'route': {
      const { frontend, route } = object
      const found = live.routes.get(route.address)
      const commands = diffRoute(route, found).map(formatRouteOperation)
      return addressObject('route', frontend, route.address, 'table local', found !== undefined, commands)
    }
    case 'chain':
    case 'rule':
      return compareRule(object, live)
  }
}

/** @param found whether there is one, with whatever contents */
function addressObject(
  kind: 'address' | 'route',
  frontend: FrontendKey,
  name: string,
  place: string,
  found: boolean,
  commands: readonly string[],
): ExplainedObject {
  const state = commands.length === 0 ? 'present' : found ? 'differs' : 'missing'
  const means = {
    present: '',
    differs: 'this node answers for the address, but not in the way that the daemon wants',
    missing: 'this node does not answer for the address: packets to it leave the node or have no route',
  }[state]
  return { kind, frontend, name, place, state, means, commands }
}

function compareVirtualServer(frontend: FrontendKey, wanted: VirtualServer, live: LiveObjects): ExplainedObject {
  const base = { kind: 'virtual-server', frontend, name: frontend, place: '' } as const
  const found = live.virtualServers?.get(frontend)
  const virtualServer = describeVirtualServer(found?.server ?? wanted, found, wanted)
  const commands = diffVirtualServer(frontend, wanted, found?.server).map(formatOperation)
  if (found === undefined)
    return {
      ...base,
      state: 'missing',
      means:
        live.virtualServers === null
          ? 'the kernel has no IPVS: nothing answers at this address and port'
          : 'nothing answers at this address and port: connections are refused or time out',
      commands,
      virtualServer,
    }
  if (commands.length === 0) return { ...base, state: 'present', means: '', commands, virtualServer }
  return { ...base, state: 'differs', means: differenceOf(virtualServer.realServers), commands, virtualServer }
}

function differenceOf(realServers: readonly ExplainedRealServer[]): string {
  const keys = (state: ExplainedRealServer['state']): string => {
    const found = realServers.filter((server) => server.state === state).map(({ key }) => key)
    return found.length > 3 ? `${found.length} endpoints` : found.join(', ')
  }
  const [missing, extra, differs] = [keys('missing'), keys('extra'), keys('differs')]
  const parts = [
    ...(missing === '' ? [] : [`${missing} should get traffic and does not`]),
    ...(extra === '' ? [] : [`${extra} gets traffic and should not`]),
    ...(differs === '' ? [] : [`${differs} has another weight or limit than it should have`]),
  ]
  return parts.length === 0
    ? 'it has another scheduler, other flags or another timeout than it should have'
    : parts.join('; ')
}

/** A virtual server as it is in the kernel. @param wanted undefined: what is wanted is not known */
export function describeVirtualServer(
  server: VirtualServer,
  live: LiveVirtualServer | undefined,
  wanted: VirtualServer | undefined,
): NonNullable<ExplainedObject['virtualServer']> {
  const isPersistent = (server.flags & FLAG_PERSISTENT) !== 0
  const wantedServers = new Map((wanted?.realServers ?? []).map((one) => [realServerKey(one), one]))
  const there = new Map((live?.server.realServers ?? []).map((one) => [realServerKey(one), one]))
  const stateOf = (key: string): ExplainedRealServer['state'] => {
    const [want, has] = [wantedServers.get(key), there.get(key)]
    if (has === undefined) return 'missing'
    if (want === undefined && isDraining(server.protocol, has)) return 'draining'
    if (wanted === undefined) return 'unknown'
    if (want === undefined) return 'extra'
    return sameSettings(want, has) ? 'present' : 'differs'
  }
  const keys = [...new Set([...wantedServers.keys(), ...there.keys()])]
  return {
    scheduler: server.scheduler,
    flags: [...(isPersistent ? ['persistent'] : []), ...schedulerFlagNames(server.scheduler, server.flags)],
    persistenceTimeoutSeconds: isPersistent ? server.timeoutSeconds : 0,
    traffic: live?.traffic ?? null,
    realServers: keys.flatMap((key): ExplainedRealServer[] => {
      const shown = there.get(key) ?? wantedServers.get(key)
      if (shown === undefined) return []
      const connections = live?.connections.get(key)
      return [
        {
          key,
          weight: shown.weight,
          forwarding: shown.forwarding,
          activeConnections: connections?.active ?? null,
          inactiveConnections: connections?.inactive ?? null,
          maxConnections: shown.upperThreshold,
          state: stateOf(key),
        },
      ]
    }),
  }
}

function sameSettings(a: RealServer, b: RealServer): boolean {
  return (
    a.weight === b.weight &&
    a.forwarding === b.forwarding &&
    a.upperThreshold === b.upperThreshold &&
    a.lowerThreshold === b.lowerThreshold
  )
}

function compareEntry(frontend: FrontendKey, { set, entry }: SetEntry, live: LiveObjects): ExplainedObject {
  const isThere = live.entries?.has(`${set} ${entry}`) === true
  const role = roleOf(set)
  return {
    kind: 'set-entry',
    frontend,
    name: entry,
    place: set,
    state: isThere ? 'present' : 'missing',
    means: isThere || role === undefined ? '' : absenceMeans(role),
    commands: isThere ? [] : [formatEntryOperation({ kind: 'add-entry', set, entry })],
  }
}

/** Sets that hold node ports of policy Local, by protocol. */
const LOCAL_NODE_PORTS: { readonly [protocol in Protocol]?: SetRole } = {
  tcp: 'NODE-PORT-LOCAL-TCP',
  udp: 'NODE-PORT-LOCAL-UDP',
}

/** Entries for the address and port of a frontend that it does not need. */
function extraEntries(
  { key, isNodePort }: { readonly key: FrontendKey; readonly isNodePort: boolean },
  own: ReadonlySet<string>,
  live: LiveObjects,
): readonly ExplainedObject[] {
  const { address, port, protocol } = parseFrontendKey(key)
  const localNodePorts = isNodePort ? LOCAL_NODE_PORTS[protocol] : undefined
  const ofPort = entriesAt(live, String(port)).filter(({ set }) => definitionOf(set)?.role === localNodePorts)
  return [
    ...entriesAt(live, `${address},${protocol}:${port}`),
    ...(localNodePorts === undefined ? [] : ofPort),
  ].flatMap((entry) => extraEntry(key, entry, own))
}

/** The entries of an address and port in every set but that of hairpin entries. @param here `10.96.0.1,tcp:80` */
export function entriesAt(live: LiveObjects, here: string): readonly SetEntry[] {
  if (live.entries === null) return []
  let index = indexes.get(live.entries)
  if (index === undefined) indexes.set(live.entries, (index = indexOf(live.entries.values())))
  return index.get(here) ?? []
}

/** A Service may have thousands of frontends, and the sets have the entries of all Services. */
const indexes = new WeakMap<ReadonlyMap<string, SetEntry>, ReadonlyMap<string, readonly SetEntry[]>>()

function indexOf(entries: Iterable<SetEntry>): ReadonlyMap<string, readonly SetEntry[]> {
  const others = Array.from(entries).filter(({ set }) => definitionOf(set)?.role !== 'LOOP-BACK')
  return Map.groupBy(others, ({ entry }) => entry.split(',').slice(0, 2).join(','))
}

function extraEntry(frontend: FrontendKey, found: SetEntry, own: ReadonlySet<string>): ExplainedObject[] {
  const { set, entry } = found
  const role = roleOf(set)
  if (own.has(`${set} ${entry}`) || role === undefined) return []
  return [
    {
      kind: 'set-entry',
      frontend,
      name: entry,
      place: set,
      state: 'extra',
      means: excessMeans(role),
      commands: [formatEntryOperation({ kind: 'delete-entry', set, entry })],
    },
  ]
}

/** The address of a route that is also on kube-ipvs0, and the reverse. */
function extraAddresses(object: WantedObject, live: LiveObjects): readonly ExplainedObject[] {
  const means = 'this node answers for the address in two ways; it leaves the one that is not configured'
  if (object.kind === 'address' && live.routes.has(object.address)) {
    const { frontend, address: name } = object
    const commands = diffRoute(undefined, live.routes.get(name)).map(formatRouteOperation)
    return [{ kind: 'route', frontend, name, place: 'table local', state: 'extra', means, commands }]
  }
  if (object.kind === 'route' && live.addresses?.has(object.route.address) === true) {
    const { frontend, route } = object
    const commands = diffAddress(undefined, live.addresses.get(route.address)).map(formatAddressOperation)
    return [{ kind: 'address', frontend, name: route.address, place: 'kube-ipvs0', state: 'extra', means, commands }]
  }
  return []
}
