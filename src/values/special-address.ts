/** Addresses that no workload has: what the API server and the kernel refuse as endpoints. */
import { isLinkLocal, isLoopback } from './address.ts'

/** What a canonical address is that belongs to no workload, in a word; undefined for an ordinary address. */
export function specialAddress(address: string): string | undefined {
  if (address === '0.0.0.0' || address === '::') return 'unspecified'
  if (address === '255.255.255.255') return 'the broadcast address'
  if (isLoopback(address)) return 'a loopback address'
  if (isLinkLocal(address)) return 'a link-local address'
  return isMulticast(address) ? 'a multicast address' : undefined
}

/** 224.0.0.0/4 and ff00::/8. */
function isMulticast(address: string): boolean {
  return /^(?:22[4-9]|23\d)\./.test(address) || /^ff[0-9a-f]{2}:/.test(address)
}
