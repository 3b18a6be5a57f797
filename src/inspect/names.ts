/** The frontends that a daemon names, by key: what the kernel has is found in them. */
import { type FrontendKey, nodePortKey, parseFrontendKey } from '../service/frontends.ts'
import type { FrontendName } from './view.ts'

export type Names = ReadonlyMap<FrontendKey, FrontendName>

/**
 * The Service port at an address and port; null: there is none. In iptables mode a node port
 * answers at every address.
 */
export function servicePortAt(names: Names, key: FrontendKey): string | null {
  const { family, port, protocol } = parseFrontendKey(key)
  return (names.get(key) ?? names.get(nodePortKey(family, port, protocol)))?.servicePort ?? null
}
