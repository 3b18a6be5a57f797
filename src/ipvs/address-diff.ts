/**
 * The device kube-ipvs0 and the addresses on it, as items and operations. Pure.
 * What could break: an address that is already there with another prefix length counts as bound and is left as it is,
 * and a link of that name of another kind is accepted, both as in kube-proxy.
 */
import { familyOf, isLinkLocal, isLoopback } from '../values/address.ts'

/** Name of the link that carries the Services' addresses; other programs know it by this name. */
export const SERVICE_DEVICE = 'kube-ipvs0'
/** Link kind of the device when it is ours (IFLA_INFO_KIND). */
export const DEVICE_KIND = 'dummy'

export interface Device {
  /** IFLA_INFO_KIND; '' for a link without one. */
  readonly kind: string
}

export interface DeviceOperation {
  readonly kind: 'create-device' | 'delete-device'
}

export interface BoundAddress {
  readonly address: string
  readonly prefixLength: number
}

export interface AddressOperation extends BoundAddress {
  readonly kind: 'bind' | 'unbind'
}

/** A host address: 32 bits for IPv4, 128 for IPv6. */
export function hostAddress(address: string): BoundAddress {
  return { address, prefixLength: familyOf(address) === 'IPv4' ? 32 : 128 }
}

export function diffDevice(desired: Device | undefined, live: Device | undefined): readonly DeviceOperation[] {
  if (desired !== undefined) return live === undefined ? [{ kind: 'create-device' }] : []
  return live === undefined ? [] : [{ kind: 'delete-device' }]
}

export function formatDeviceOperation(op: DeviceOperation): string {
  switch (op.kind) {
    case 'create-device':
      return `ip link add ${SERVICE_DEVICE} type ${DEVICE_KIND}`
    case 'delete-device':
      return `ip link delete ${SERVICE_DEVICE}`
  }
}

export function diffAddress(
  desired: BoundAddress | undefined,
  live: BoundAddress | undefined,
): readonly AddressOperation[] {
  if (desired !== undefined) return live === undefined ? [{ kind: 'bind', ...desired }] : []
  return live === undefined ? [] : [{ kind: 'unbind', ...live }]
}

export function stepAddress(op: AddressOperation): BoundAddress | undefined {
  return op.kind === 'bind' ? { address: op.address, prefixLength: op.prefixLength } : undefined
}

export function formatAddressOperation(op: AddressOperation): string {
  return `ip address ${op.kind === 'bind' ? 'add' : 'delete'} ${op.address}/${op.prefixLength} dev ${SERVICE_DEVICE}`
}

/** Addresses that the kernel or somebody else may have put on the device for reasons of their own. */
export function isNeverOurs(address: string): boolean {
  return isLoopback(address) || (familyOf(address) === 'IPv6' && isLinkLocal(address))
}
