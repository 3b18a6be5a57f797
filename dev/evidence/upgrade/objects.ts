/**
 * The names of what a proxy has in the kernel, read from what programs print, and what one state
 * has more than another. Pure.
 */

/** What programs print on a node; empty where a program or the kernel's part is not there. */
export interface Printed {
  /** `iptables-save` and `ip6tables-save`. */
  readonly ip: string
  readonly ip6: string
  /** `ipset list -n` */
  readonly sets: string
  /** `ipvsadm -S -n` */
  readonly servers: string
  /** `ip -o address show dev kube-ipvs0` */
  readonly addresses: string
  /** `nft list tables` */
  readonly tables: string
}

/** One name each, such as `chain ip nat KUBE-SERVICES`. The first word is the kind. */
export function objectsOf({ ip, ip6, sets, servers, addresses, tables }: Printed): ReadonlySet<string> {
  const found = (text: string, pattern: RegExp, kind: string): string[] =>
    [...text.matchAll(pattern)].map(([, name = '', second = '']) => `${kind} ${name} ${second}`.trim())
  return new Set([
    ...rulesOf(ip, 'ip'),
    ...rulesOf(ip6, 'ip6'),
    ...found(sets, /^(KUBE-\S+)$/gm, 'set'),
    ...found(servers, /^-A (-\w \S+)/gm, 'server'),
    ...found(addresses, /\binet6? (\S+)/g, 'address').filter((name) => !name.includes(' fe80:')),
    ...found(tables, /^table (ip6?|inet) (kube-\S+)$/gm, 'table'),
  ])
}

/**
 * Chains, and jumps to them from chains of the kernel. Kubelet writes KUBE-FIREWALL too, so every
 * proxy leaves it.
 */
function rulesOf(save: string, family: string): string[] {
  const names: string[] = []
  let table = ''
  for (const line of save.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1)
    const chain = /^:(KUBE-(?!FIREWALL\b)\S+)/.exec(line)?.[1]
    if (chain !== undefined) names.push(`chain ${family} ${table} ${chain}`)
    const jump = /^-A ((?!KUBE-)\S+) .*-[jg] (KUBE-(?!FIREWALL\b)\S+)/.exec(line)
    if (jump !== null) names.push(`jump ${family} ${table} ${jump[1]} ${jump[2]}`)
  }
  return names
}

/** What the first one has beside the second one, sorted. */
export function more(state: ReadonlySet<string>, than: ReadonlySet<string>): readonly string[] {
  return [...state].filter((name) => !than.has(name)).toSorted()
}

/** `24 chains, 1 device`, or `none`. */
export function counted(names: readonly string[]): string {
  const kinds = Map.groupBy(names, (name) => name.replace(/ .*/, ''))
  const parts = [...kinds].map(([kind, of]) => `${of.length} ${of.length === 1 ? kind : plural(kind)}`)
  return parts.length === 0 ? 'none' : parts.join(', ')
}

const plural = (kind: string): string => (kind.endsWith('s') ? `${kind}es` : `${kind}s`)
