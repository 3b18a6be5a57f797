/**
 * What can be done to the IPVS table, as data.
 * What could break: `direction` decides when in a plan an operation runs. Whatever takes capacity away is a removal,
 * so that no prefix of a plan leaves a virtual server empty that has real servers before and after.
 */
import type { Direction } from '../sync/table.ts'
import type { RealServer, VirtualServer, VirtualServerKey } from './types.ts'

export type VirtualServerOperation =
  | { readonly kind: 'add-virtual-server'; readonly key: VirtualServerKey; readonly server: VirtualServer }
  | { readonly kind: 'edit-virtual-server'; readonly key: VirtualServerKey; readonly server: VirtualServer }
  | { readonly kind: 'delete-virtual-server'; readonly key: VirtualServerKey; readonly server: VirtualServer }
  | RealServerOperation

/** `server` names the virtual server; its own fields are not written. */
export interface RealServerOperation {
  readonly kind: 'add-real-server' | 'edit-real-server' | 'delete-real-server'
  readonly key: VirtualServerKey
  readonly server: VirtualServer
  readonly realServer: RealServer
}

export function directionOf(op: VirtualServerOperation): Direction {
  switch (op.kind) {
    case 'add-virtual-server':
    case 'edit-virtual-server':
    case 'add-real-server':
      return 'add'
    case 'edit-real-server':
      return op.realServer.weight === 0 ? 'remove' : 'add'
    case 'delete-virtual-server':
    case 'delete-real-server':
      return 'remove'
  }
}
