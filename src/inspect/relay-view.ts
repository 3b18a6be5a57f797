/** What a daemon tells over its local socket about node ports at loopback addresses. */
import { list, number, object, oneOf, type Read, string } from '../values/shape.ts'

/** A node port of the Service at a loopback address (kubeIPVS.localhostNodePorts). */
export const RELAY_VIEW = object({
  /** `127.0.0.1:30080` */
  socket: string,
  /** Why it does not listen, `open` where it does. */
  state: oneOf('open', 'no-endpoint', 'no-address', 'failing', 'left-out', 'waiting'),
  /** Of a failing one: what the kernel says. */
  because: string,
  /** Those that get its connections, and how many were left out. */
  endpoints: list(string),
  omitted: number,
})
export type RelayView = Read<typeof RELAY_VIEW>
