/**
 * What the node itself shows of packets, read by programs: the connections that conntrack keeps,
 * the mark with which packets left the firewall, and who was refused by a reset. Source ports tell
 * packets apart: each of a world has its own.
 */
import { readdirSync, writeFileSync } from 'node:fs'
import { run } from '../support/programs.ts'

/**
 * Behind every chain of a firewall: a mark that is still there is copied to the connection, where
 * conntrack shows it.
 */
const TABLE = `table inet spy {
  set resets { type inet_service; flags dynamic; size 65535; }
  chain left { type filter hook postrouting priority 500; jump look; }
  chain arrived { type filter hook input priority 500; jump look; }
  chain look {
    meta mark != 0 ct mark set meta mark
    tcp flags rst add @resets { tcp dport }
  }
}`

const TIMEOUTS = '/proc/sys/net/netfilter'
/** Longer than a scenario takes, so that every connection of a scenario is still known at its end. */
const TIMEOUT_SECONDS = '600'

/** Installs the spy in this network namespace. Needs a rule with `ct`, or there is no conntrack. */
export function installSpy(): void {
  run(['nft', '-f', '-'], TABLE)
  for (const name of readdirSync(TIMEOUTS))
    if (/^nf_conntrack_(tcp|udp|sctp|icmp|icmpv6)_timeout/.test(name))
      writeFileSync(`${TIMEOUTS}/${name}`, TIMEOUT_SECONDS)
  // No limit on refusals: types that are not in the mask have none.
  writeFileSync('/proc/sys/net/ipv4/icmp_ratemask', '0')
}

export interface Traces {
  /** Connections by the source port (or the number of the ping) of their first packet, and the marks. */
  readonly flows: ReadonlyMap<number, readonly Flow[]>
  /** Client ports to which a reset was sent. */
  readonly resets: ReadonlySet<number>
}

export interface Flow {
  /** State, both directions, and whether it was answered. */
  readonly text: string
  /** 0: none. */
  readonly mark: number
}

export function readTraces(): Traces {
  const flows = new Map<number, Flow[]>()
  for (const family of ['ipv4', 'ipv6'])
    for (const line of run(['conntrack', '-L', '-f', family]).split('\n')) {
      if (line === '') continue
      const { port, flow } = parseFlow(line)
      flows.set(port, [...(flows.get(port) ?? []), flow])
    }
  const listed = JSON.parse(run(['nft', '-j', 'list', 'set', 'inet', 'spy', 'resets'])) as SetListing // as nft prints it
  const resets = new Set(listed.nftables.flatMap(({ set }) => set?.elem ?? []))
  return { flows, resets }
}

interface SetListing {
  readonly nftables: readonly { readonly set?: { readonly elem?: readonly number[] } }[]
}

/** `tcp 6 8 CLOSE src=... dst=... sport=... dport=... [UNREPLIED] src=... dst=... sport=... dport=... [ASSURED] mark=0 use=1` */
export function parseFlow(line: string): { readonly port: number; readonly flow: Flow } {
  const [, head = '', state = ''] = /^(\S+).*? ([A-Z_]{2,})? *src=/.exec(line) ?? []
  const [first = '', second = ''] = line.split(/(?= src=)/).slice(1)
  const of = (direction: string, name: string): string => new RegExp(` ${name}=(\\S+)`).exec(direction)?.[1] ?? ''
  const portOf = (direction: string, name: string): string => of(direction, name) || of(direction, 'id')
  const port = portOf(first, 'sport')
  const text = [
    `${head} ${state} ${of(first, 'src')} to ${of(first, 'dst')} ${of(first, 'dport')}`,
    `answered by ${of(second, 'src')} ${of(second, 'sport')} to ${of(second, 'dst')}`,
    portOf(second, 'dport') === port ? 'at the same port' : 'at another port',
    ...[...line.matchAll(/\[(\w+)\]/g)].map(([, flag]) => flag),
  ].join(' ')
  return {
    port: Number(port),
    flow: { text: text.replaceAll(/ +/g, ' '), mark: Number(of(line, 'mark')) },
  }
}
