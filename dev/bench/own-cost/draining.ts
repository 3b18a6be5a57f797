/**
 * The real servers with weight 0 in the kernel of `--own-cost`, and the list of them: without any, no drain would end, and a program would
 * hold more and more of them. All are listed without connections.
 */
import { attributesOf, IPVS_ATTRIBUTE, IPVS_COMMAND } from '../writes/ipvs-message.ts'

export class Draining {
  /** Attributes of a real server, by its virtual server, then by its address. Both keys are the bytes that name it. */
  readonly #servers = new Map<string, Map<string, Uint8Array>>()

  /** A change of a service or a destination: struct genlmsghdr and its attributes. */
  change(payload: Uint8Array): void {
    const { service, destination } = partsOf(payload)
    const key = text(service)
    if (payload[0] === IPVS_COMMAND.delService) this.#servers.delete(key)
    if (destination === undefined) return
    const address = addressOf(destination)
    if (payload[0] === IPVS_COMMAND.setDestination && weightOf(destination) === 0) {
      const there = this.#servers.get(key) ?? new Map<string, Uint8Array>()
      this.#servers.set(key, there.set(address, destination.slice()))
    } else if (payload[0] === IPVS_COMMAND.delDestination) {
      const there = this.#servers.get(key)
      there?.delete(address)
      if (there?.size === 0) this.#servers.delete(key)
    }
  }

  /** The payloads that answer a list of destinations; none for any other list. */
  list(payload: Uint8Array): Uint8Array[] {
    if (payload[0] !== IPVS_COMMAND.getDestinations) return []
    return Array.from(this.#servers.get(text(partsOf(payload).service))?.values() ?? [], answerOf)
  }
}

function partsOf(payload: Uint8Array): { readonly service: Uint8Array; readonly destination: Uint8Array | undefined } {
  let [service, destination]: [Uint8Array, Uint8Array | undefined] = [new Uint8Array(), undefined]
  for (const [type, from, to] of attributesOf(payload, 4, payload.length)) {
    if (type === IPVS_ATTRIBUTE.service) service = payload.subarray(from, to)
    else if (type === IPVS_ATTRIBUTE.destination) destination = payload.subarray(from, to)
  }
  return { service, destination }
}

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1')

function addressOf(destination: Uint8Array): string {
  let key = ''
  for (const [type, from, to] of attributesOf(destination, 0, destination.length))
    if (type === IPVS_ATTRIBUTE.address || type === IPVS_ATTRIBUTE.port) key += text(destination.subarray(from, to))
  return key
}

function weightOf(destination: Uint8Array): number | undefined {
  const view = new DataView(destination.buffer, destination.byteOffset, destination.length)
  for (const [type, from] of attributesOf(destination, 0, destination.length))
    if (type === IPVS_ATTRIBUTE.weight) return view.getUint32(from, true)
  return undefined
}

/** The attributes of the request, and no connections. */
function answerOf(destination: Uint8Array): Uint8Array {
  const inner = [...destination]
  const { activeConnections, inactiveConnections, persistentConnections } = IPVS_ATTRIBUTE
  for (const type of [activeConnections, inactiveConnections, persistentConnections])
    inner.push(8, 0, type, 0, 0, 0, 0, 0)
  const length = inner.length + 4
  return Uint8Array.from([
    IPVS_COMMAND.newDestination,
    1,
    0,
    0,
    length & 255,
    length >> 8,
    IPVS_ATTRIBUTE.destination,
    0,
    ...inner,
  ])
}
