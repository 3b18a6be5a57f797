/**
 * The name servers that this node asks.
 * What could break: a host without the file has none, which is no error.
 */
import { readFile } from 'node:fs/promises'
import { parseAddress } from '../values/address.ts'

const RESOLV_CONF = '/etc/resolv.conf'

/** Canonical addresses of the `nameserver` lines (resolv.conf(5)). */
export async function readNameservers(path = RESOLV_CONF): Promise<readonly string[]> {
  try {
    return nameserversOf(await readFile(path, 'utf8'))
  } catch {
    return []
  }
}

export function nameserversOf(text: string): readonly string[] {
  return text.split('\n').flatMap((line) => {
    const written = /^nameserver\s+([^\s%]+)/.exec(line)?.[1]
    return written === undefined ? [] : (parseAddress(written) ?? [])
  })
}
