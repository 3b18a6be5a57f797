/**
 * The normalisation of `test/recordings/README.md`: it removes what two dumps of the same state may
 * differ in, and nothing else. The order of rules inside a chain stays, because the first match
 * wins; only the chains named in SORTED_CHAINS are sorted, because kube-proxy writes them in random
 * order. Pure.
 */
import type { StateFile } from './files.ts'

const SORTED_CHAINS: ReadonlySet<string> = new Set(['KUBE-IPVS-OUT-FILTER'])
const TABLES = ['nat', 'filter', 'mangle'] as const
/** Kernel-wide values, which a network namespace can see but not set. */
const KERNEL_WIDE = /^(net\/netfilter\/nf_conntrack_max|module nf_conntrack hashsize) = .*$/

const linesOf = (text: string): string[] => text.split('\n').filter((line) => line.trim() !== '')
const textOf = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('')

/** A recorded file: the recorder has normalised it already, except what depends on the program. */
export function normaliseRecorded(file: StateFile, text: string): string {
  if (file === 'process.txt') return normaliseProcess(text)
  // Whether a body ends with a newline shows only as an empty line.
  if (file === 'listeners.txt') return `${text.trimEnd()}\n`.replaceAll(/\n+(?=--- listen)/g, '\n').trimStart()
  return text
}

/** `ipvsadm -S -n`: virtual servers sorted as text, each followed by its real servers, sorted. */
export function normaliseIpvs(text: string): string {
  const groups: { readonly server: string; readonly real: string[] }[] = []
  for (const line of linesOf(text).map((one) => one.trimEnd())) {
    if (line.startsWith('-A ')) groups.push({ server: line, real: [] })
    else groups.at(-1)?.real.push(line)
  }
  groups.sort((a, b) => compare(a.server, b.server))
  return textOf(groups.flatMap(({ server, real }) => [server, ...real.sort(compare)]))
}

/** The output of `ip -j -d address show dev kube-ipvs0`; '' when there is no such link. */
export function normaliseAddresses(json: string): string {
  if (json.trim() === '') return ''
  const [link] = (JSON.parse(json) as AddressJson[]).filter(({ ifname }) => ifname !== undefined) // iproute2's format
  if (link === undefined) return ''
  const addresses = (link.addr_info ?? []).map(({ local, prefixlen }) => `${local}/${prefixlen}`).sort(compare)
  const flags = (link.flags ?? []).join(',')
  const kind = link.linkinfo?.info_kind ?? 'none'
  return textOf([`# ${link.ifname}: ${kind} <${flags}> mtu ${link.mtu} state ${link.operstate}`, ...addresses])
}

interface AddressJson {
  readonly ifname?: string
  readonly flags?: readonly string[]
  readonly mtu?: number
  readonly operstate?: string
  readonly linkinfo?: { readonly info_kind?: string }
  readonly addr_info?: readonly { readonly local: string; readonly prefixlen: number }[]
}

/** `ipset save`: only KUBE-* sets, without values that the kernel draws or computes; sorted by set, then member. */
export function normaliseIpset(text: string): string {
  const sets = new Map<string, { create: string; readonly members: string[] }>()
  for (const line of linesOf(text)) {
    const [verb, name = ''] = line.split(' ')
    if (!name.startsWith('KUBE-')) continue
    const set = sets.get(name) ?? { create: '', members: [] }
    sets.set(name, set)
    if (verb === 'create') set.create = line.replace(/ (initval|bucketsize) \S+/g, '').trimEnd()
    else set.members.push(line.trimEnd())
  }
  const sorted = [...sets].sort(([a], [b]) => compare(a, b))
  return textOf(sorted.flatMap(([, { create, members }]) => [create, ...members.sort(compare)]))
}

/** `iptables-save`: nat and filter, mangle unless it is empty; chains sorted, rules by chain in their own order. */
export function normaliseRules(text: string): string {
  const tables = new Map<string, { readonly chains: string[]; readonly rules: Map<string, string[]> }>()
  let table = { chains: [] as string[], rules: new Map<string, string[]>() }
  for (const line of linesOf(text)) {
    if (line.startsWith('*')) {
      table = { chains: [], rules: new Map() }
      tables.set(line.slice(1).trim(), table)
    } else if (line.startsWith(':')) table.chains.push(line.replace(/\s*\[\d+:\d+\]\s*$/, ''))
    else if (line.startsWith('-A ') || line.startsWith('[')) {
      const rule = line.replace(/^\[\d+:\d+\] /, '').trimEnd()
      const chain = rule.split(' ')[1] ?? ''
      const rules = table.rules.get(chain) ?? []
      table.rules.set(chain, rules)
      rules.push(rule)
    }
  }
  const lines: string[] = []
  for (const name of TABLES) {
    const found = tables.get(name)
    if (found === undefined) continue
    const ownChains = found.chains.some((chain) => chain.endsWith(' -'))
    if (name === 'mangle' && found.rules.size === 0 && !ownChains) continue
    lines.push(`*${name}`, ...found.chains.sort(compare))
    for (const [chain, rules] of [...found.rules].sort(([a], [b]) => compare(a, b)))
      lines.push(...(SORTED_CHAINS.has(chain) ? rules.sort(compare) : rules))
    lines.push('COMMIT')
  }
  return textOf(lines)
}

/** Drops the lines that only the kernel's first network namespace can set. */
export function withoutKernelWide(sysctls: string): string {
  return textOf(linesOf(sysctls).filter((line) => !KERNEL_WIDE.test(line)))
}

/** `conntrack -L -p udp`: both directions of each entry, sorted, without timers, marks and flags. */
export function normaliseConntrack(text: string): string {
  const entries = linesOf(text)
    .filter((line) => line.startsWith('udp'))
    .map((line) => ['udp', ...(line.match(/\b(src|dst|sport|dport)=\S+/g) ?? [])].join(' '))
  return textOf(entries.sort(compare))
}

/** How the process ended; words of the log, file names and line numbers do not count. */
export function normaliseProcess(text: string): string {
  const facts = linesOf(text).flatMap((line) => {
    const exit = /^\S+ --cleanup: exit (\d+)/.exec(line) ?? /^cleanup: exit (\d+)/.exec(line)
    if (exit !== null) return [`cleanup: exit ${exit[1]}`]
    if (/^(\S+ is )?not running/.test(line)) return ['not running']
    const own = /exited by itself with (code \d+|signal \S+)/.exec(line)
    return own === null ? [] : [`exited by itself with ${own[1]}`]
  })
  return textOf(facts)
}

/**
 * One answer of a listener, as recorded: header lines sorted, times replaced, what belongs to the
 * connection dropped.
 */
export interface Answer {
  /** As `ss -ltn` prints the local address. */
  readonly listen: string
  readonly url: string
  readonly status: number
  readonly reason: string
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body: string
}

const DROPPED_HEADERS = new Set(['date', 'content-length', 'connection', 'keep-alive', 'transfer-encoding'])

export function normaliseAnswers(answers: readonly Answer[]): string {
  const blocks = answers.map(({ listen, url, status, reason, headers, body }) => {
    const kept = Object.entries(headers).filter(([name]) => !DROPPED_HEADERS.has(name.toLowerCase()))
    const named = kept.map(([name, value]) => `${canonicalHeader(name)}: ${String(value)}`).sort(compare)
    const times = body.replace(/("(?:lastUpdated|currentTime)":\s*)"[^"]*"/g, '$1"TIME"')
    return `--- listen ${listen}\nGET ${url}\nHTTP/1.1 ${status} ${reason}\n${textOf(named)}\n${times.trimEnd()}\n`
  })
  return blocks.join('')
}

const canonicalHeader = (name: string): string =>
  name.replaceAll(/(^|-)([a-z])/g, (_, dash: string, letter: string) => dash + letter.toUpperCase())

/** By code unit, as the recorder's sort does. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
