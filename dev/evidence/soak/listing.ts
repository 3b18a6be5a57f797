/**
 * What the kernel of this network namespace has, as lines that are equal for equal states: sorted,
 * without counters and without what depends on the history (sizes of hash tables).
 */
import { execFileSync } from 'node:child_process'
import { asObject } from '../../api-server/store.ts'

/** A line is its source and its text. */
export type Listing = readonly string[]

const read = (program: string, ...args: readonly string[]): string =>
  execFileSync(program, args, { encoding: 'utf8', maxBuffer: 256 << 20, stdio: ['ignore', 'pipe', 'ignore'] })

/** Both families, the firewalls of both kinds and both back ends of iptables. */
export function listKernel(): Listing {
  const saves = ['iptables-nft-save', 'ip6tables-nft-save', 'iptables-legacy-save', 'ip6tables-legacy-save']
  return [
    ...named('ipvs', read('ipvsadm', '-S', '-n').split('\n')),
    // No device is no address.
    ...named('address', orNothing('ip', '-o', 'address', 'show', 'dev', 'kube-ipvs0').flatMap(addressOf)),
    ...named('route', orNothing('ip', 'route', 'show', 'table', 'local', 'proto', '73')),
    ...named('set', read('ipset', 'save').split('\n').map(setLine)),
    ...saves.flatMap((program) => named(program, ruleLines(orNothing(program)))),
    ...named('nft', nftLines(read('nft', '-s', '-j', 'list', 'ruleset'))),
  ].toSorted()
}

function orNothing(program: string, ...args: readonly string[]): string[] {
  try {
    return read(program, ...args).split('\n')
  } catch {
    return []
  }
}

const named = (source: string, lines: readonly string[]): string[] =>
  lines.flatMap((line) => (line.trim() === '' ? [] : [`${source} ${line.trim()}`]))

const addressOf = (line: string): string[] => {
  const [, address = 'fe80:'] = / inet6? (\S+)/.exec(line) ?? []
  return address.startsWith('fe80:') ? [] : [address]
}

/** Of `ipset save`. A set grows with its entries and does not shrink. */
export const setLine = (line: string): string => line.replaceAll(/ (?:hashsize|maxelem|bucketsize|initval) \S+/g, '')

const OF_KERNEL = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'])

/**
 * Of iptables-save: chains in any order, and each rule with its place in its chain. A jump from a
 * chain of the kernel has no place: it stays where it was when a mode or firewall returns before it
 * was removed, and only rules of others in front of it would matter (src/iptables/diff.ts). Chains
 * of the kernel are there once a table is, and iptables mode leaves KUBE-FIREWALL, which is
 * kubelet's too.
 */
export function ruleLines(lines: readonly string[]): string[] {
  const places = new Map<string, number>()
  let table = ''
  return lines.flatMap((line) => {
    if (line.startsWith('*')) table = line
    if (/^:[A-Z]+ ACCEPT |\bKUBE-FIREWALL\b/.test(line)) return []
    if (line.startsWith(':')) return [`${table} ${line.replace(/ \[\d+:\d+\]/, '')}`]
    const [, chain] = /^-A (\S+)/.exec(line) ?? []
    if (chain === undefined) return []
    if (OF_KERNEL.has(chain)) return [`${table} ${line}`]
    const place = (places.get(`${table} ${chain}`) ?? 0) + 1
    places.set(`${table} ${chain}`, place)
    return [`${table} ${place} ${line}`]
  })
}

/** What iptables-nft-save prints. */
const OF_IPTABLES = new Set(['filter', 'nat', 'mangle', 'raw', 'security'])

/**
 * Of `nft -j list ruleset` without the tables of iptables: tables, chains, rules with their place,
 * sets, and each element by itself.
 */
export function nftLines(text: string): string[] {
  const places = new Map<string, number>()
  const { nftables } = JSON.parse(text) as { readonly nftables: readonly object[] } // by nft
  return nftables.flatMap((entry) =>
    Object.entries(entry).flatMap(([kind, value]: [string, unknown]) => {
      if (kind === 'metainfo') return []
      const { handle: _, elem, ...rest } = asObject(value)
      if (OF_IPTABLES.has(String(rest[kind === 'table' ? 'name' : 'table']))) return []
      // The size of a set grows with its elements.
      const fixed = JSON.stringify({ ...rest, size: undefined })
      if (kind === 'rule') {
        const chain = [rest['family'], rest['table'], rest['chain']].join(' ')
        places.set(chain, (places.get(chain) ?? 0) + 1)
        return [`${kind} ${chain} ${places.get(chain)} ${fixed}`]
      }
      const name = [rest['family'], rest['table'], rest['name']].join(' ')
      const elements = Array.isArray(elem) ? elem.map((one: unknown) => `element ${name} ${JSON.stringify(one)}`) : []
      return [`${kind} ${fixed}`, ...elements]
    }),
  )
}

/** How many lines each source has. */
export function countsOf(listing: Listing): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const line of listing) {
    const [source = '', kind = ''] = line.split(' ')
    const name = source === 'nft' || source === 'ipvs' || source === 'set' ? `${source} ${kind}` : source
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

/** Lines that one of them has more often, with a sign. */
export function differences(wanted: Listing, found: Listing): string[] {
  const extra = new Map<string, number>()
  for (const line of found) extra.set(line, (extra.get(line) ?? 0) + 1)
  const missing = wanted.filter((line) => {
    const count = extra.get(line) ?? 0
    extra.set(line, count - 1)
    return count <= 0
  })
  return [
    ...missing.map((line) => `missing: ${line}`),
    ...[...extra].flatMap(([line, count]) => (count > 0 ? [`extra: ${line}`] : [])),
  ]
}
