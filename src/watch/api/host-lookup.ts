/**
 * Names of hosts to addresses with getaddrinfo, so that /etc/hosts and nsswitch.conf count as everywhere else on the node.
 * A look-up that hangs blocks one of the four threads of libuv, which read files as well. Callers that ask for the same name
 * while a look-up is under way share it, so one name takes one thread, however often it is tried again.
 */
import { lookup, type LookupAddress, type LookupAllOptions } from 'node:dns'
import type { LookupFunction } from 'node:net'

type Found = (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void
type LookupAll = (hostname: string, options: LookupAllOptions, callback: Found) => void

/** A look-up function for sockets. @param lookupAll does the work; tests have one of their own */
export function sharedLookup(lookupAll: LookupAll = lookup): LookupFunction {
  /** Who waits for a look-up that is under way. */
  const waiting = new Map<string, Found[]>()
  return (hostname, options, callback) => {
    const answer: Found = (error, addresses) => {
      const [first] = addresses
      if (error !== null || first === undefined) callback(error ?? new Error(`${hostname} has no address`), '')
      else if (options.all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    }
    const key = JSON.stringify([hostname, options.family, options.hints, options.order])
    const others = waiting.get(key)
    if (others !== undefined) {
      others.push(answer)
      return
    }
    const all = [answer]
    waiting.set(key, all)
    lookupAll(hostname, { ...options, all: true }, (error, addresses = []) => {
      waiting.delete(key)
      for (const each of all) each(error, addresses)
    })
  }
}
