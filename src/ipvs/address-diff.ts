/**
 * The device kube-ipvs0 and the addresses on it, as items and operations. Pure. An address belongs
 * on the device as a host address (/32, /128); one with another prefix length or with a peer is
 * replaced. A link of that name of another kind is accepted, as in kube-proxy.
 */
import type { Direction, TableKind } from '../sync/table.ts'
import { familyOf, isLinkLocal, isLoopback } from '../values/address.ts'
import { compareText } from '../values/lists.ts'
import type { IpFamily } from '../values/protocol.ts'
import { SERVICE_DEVICE } from '../values/well-known.ts'

/** Link kind of the device when it is ours (IFLA_INFO_KIND). */
export const DEVICE_KIND = 'dummy'

export interface Device {
  /** IFLA_INFO_KIND; '' for a link without one. */
  readonly kind: string
}

export interface DeviceOperation {
  readonly kind: 'create-device' | 'delete-device'
}

/** One binding of an address to the device. The kernel distinguishes two bindings of one address by these fields. */
export interface Binding {
  readonly prefixLength: number
  /** The peer's address, if there is one (`ip address add ADDRESS peer PEER/PREFIX`). */
  readonly peer?: string | undefined
}

/** An address on the device. */
export interface BoundAddress {
  readonly address: string
  /** At least one, in the order of `compareBindings`. Linux allows only one for an IPv6 address on a link. */
  readonly bindings: readonly Binding[]
}

export interface AddressOperation extends Binding {
  readonly kind: 'bind' | 'unbind'
  readonly address: string
  /** The address stays: the host address replaces this binding. */
  readonly replaced?: true
}

const HOST_BINDING: Readonly<Record<IpFamily, Binding>> = { IPv4: { prefixLength: 32 }, IPv6: { prefixLength: 128 } }
const HOST_BINDINGS: Readonly<Record<IpFamily, readonly Binding[]>> = {
  IPv4: [HOST_BINDING.IPv4],
  IPv6: [HOST_BINDING.IPv6],
}

/** A host address: 32 bits for IPv4, 128 for IPv6, and no peer. */
export function hostAddress(address: string): BoundAddress {
  return { address, bindings: HOST_BINDINGS[familyOf(address)] }
}

/** The addresses on the device, by address, from a list of the kernel. */
export function liveAddresses(listed: Iterable<Binding & { readonly address: string }>): Map<string, BoundAddress> {
  const found = new Map<string, BoundAddress>()
  for (const { address, prefixLength, peer } of listed) {
    const before = found.get(address)
    const host = HOST_BINDING[familyOf(address)]
    // Almost every address is a host address, and there may be many thousands.
    if (before === undefined && peer === undefined && prefixLength === host.prefixLength)
      found.set(address, hostAddress(address))
    else found.set(address, withBinding(before, address, { prefixLength, peer }))
  }
  return found
}

/** Whether an address has exactly this binding. */
export function hasBinding(live: BoundAddress | undefined, binding: Binding): boolean {
  return live?.bindings.some((it) => isSameBinding(it, binding)) ?? false
}

function isSameAddress(a: BoundAddress, b: BoundAddress): boolean {
  if (a.bindings === b.bindings) return true
  return a.bindings.length === b.bindings.length && a.bindings.every((binding) => hasBinding(b, binding))
}

export function isSameBinding(a: Binding, b: Binding): boolean {
  return compareBindings(a, b) === 0
}

function compareBindings(a: Binding, b: Binding): number {
  if (a.prefixLength !== b.prefixLength) return a.prefixLength - b.prefixLength
  return compareText(a.peer ?? '', b.peer ?? '')
}

function withBinding(live: BoundAddress | undefined, address: string, binding: Binding): BoundAddress {
  if (live === undefined) return { address, bindings: [binding] }
  return hasBinding(live, binding) ? live : { address, bindings: [...live.bindings, binding].sort(compareBindings) }
}

/** One key, the name of the device. */
export const DEVICE: TableKind<Device, DeviceOperation> = {
  name: 'device',
  key: () => SERVICE_DEVICE,
  diff: (_key, desired, live) =>
    (desired === undefined) === (live === undefined)
      ? []
      : [{ kind: desired === undefined ? 'delete-device' : 'create-device' }],
  equal: (a, b) => a.kind === b.kind,
  step: (_live, op) => (op.kind === 'create-device' ? { kind: DEVICE_KIND } : undefined),
  direction: (op) => (op.kind === 'create-device' ? 'add' : 'remove'),
  text: (op) =>
    op.kind === 'create-device'
      ? `ip link add ${SERVICE_DEVICE} type ${DEVICE_KIND}`
      : `ip link delete ${SERVICE_DEVICE}`,
}

/**
 * Operations that leave an address on the device as a host address, or not at all. For IPv4 the
 * host address is added before other bindings are removed, so that connections to it never fail.
 * Linux allows one binding of an IPv6 address on a link, so there the other one is removed first,
 * in the same datagram.
 */
export function diffAddress(
  desired: BoundAddress | undefined,
  live: BoundAddress | undefined,
): readonly AddressOperation[] {
  if (desired === live) return []
  const ops: AddressOperation[] = []
  for (const binding of live?.bindings ?? [])
    if (desired === undefined) ops.push({ kind: 'unbind', address: live?.address ?? '', ...binding })
    else if (!hasBinding(desired, binding))
      ops.push({ kind: 'unbind', address: desired.address, ...binding, replaced: true })
  if (desired === undefined) return ops
  const missing = desired.bindings.filter((binding) => !hasBinding(live, binding))
  const binds = missing.map((binding): AddressOperation => ({ kind: 'bind', address: desired.address, ...binding }))
  return familyOf(desired.address) === 'IPv4' ? [...binds, ...ops] : [...ops, ...binds]
}

/** A replaced IPv6 binding must be removed before the host address can be added. */
function directionOfAddress({ kind, address, replaced }: AddressOperation): Direction {
  return kind === 'bind' || (replaced === true && familyOf(address) === 'IPv6') ? 'add' : 'remove'
}

/** The live address after one successful operation. */
function stepAddress(live: BoundAddress | undefined, op: AddressOperation): BoundAddress | undefined {
  const { kind, address, prefixLength, peer } = op
  const binding = { prefixLength, peer }
  if (kind === 'bind') return withBinding(live, address, binding)
  const bindings = live?.bindings.filter((it) => !isSameBinding(it, binding)) ?? []
  return bindings.length === 0 ? undefined : { address, bindings }
}

export function formatAddressOperation({ kind, address, prefixLength, peer }: AddressOperation): string {
  const place = peer === undefined ? `${address}/${prefixLength}` : `${address} peer ${peer}/${prefixLength}`
  return `ip address ${kind === 'bind' ? 'add' : 'delete'} ${place} dev ${SERVICE_DEVICE}`
}

/** Key: the address. */
export const ADDRESSES: TableKind<BoundAddress, AddressOperation> = {
  name: 'addresses',
  key: (op) => op.address,
  diff: (_key, desired, live) => diffAddress(desired, live),
  equal: isSameAddress,
  step: stepAddress,
  direction: directionOfAddress,
  text: formatAddressOperation,
}

/** Loopback and link-local addresses: the kernel or another program may have added them to the device. */
export function isNeverOurs(address: string): boolean {
  return isLoopback(address) || (familyOf(address) === 'IPv6' && isLinkLocal(address))
}
