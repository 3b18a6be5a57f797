/**
 * The node of the recordings: eth0 with its addresses, nothing else, kernel defaults. A case that
 * starts from another node proves nothing, so a difference ends the case.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { CodedError } from '../../src/values/errors.ts'
import { enterNewNamespace } from '../support/net-namespace.ts'
import { finish, run } from '../support/programs.ts'
import type { CaseLink } from './case-file.ts'
import type { Ground } from './files.ts'
import { takeState } from './state.ts'

/** Kernel defaults that kube-proxy and kube-ipvs change. */
const DEFAULT_SYSCTLS: Readonly<Record<string, number>> = {
  'net/ipv4/vs/conntrack': 0,
  'net/ipv4/vs/conn_reuse_mode': 1,
  'net/ipv4/vs/expire_nodest_conn': 0,
  'net/ipv4/vs/expire_quiescent_template': 0,
  'net/ipv4/ip_forward': 0,
  'net/ipv4/conf/all/arp_ignore': 0,
  'net/ipv4/conf/all/arp_announce': 0,
  'net/ipv4/conf/all/route_localnet': 0,
  'net/ipv6/conf/all/forwarding': 0,
  'net/netfilter/nf_conntrack_tcp_timeout_established': 432000,
  'net/netfilter/nf_conntrack_tcp_timeout_close_wait': 60,
  'net/netfilter/nf_conntrack_tcp_be_liberal': 0,
  'net/netfilter/nf_conntrack_udp_timeout': 30,
  'net/netfilter/nf_conntrack_udp_timeout_stream': 120,
}
const DEFAULT_CONNTRACK = 65_536

/** For `ip -batch`. */
const NODE = `link set lo up
link add eth0 type dummy
link set eth0 addrgenmode none
link set eth0 up
address add 10.0.2.15/24 dev eth0
address add fd00:10:0:2::15/64 dev eth0 nodad
address add fe80::15/64 dev eth0 nodad
route add default via 10.0.2.2 dev eth0
route add default via fd00:10:0:2::2 dev eth0
`

/** Removes what a case left in the kernel's first namespace; each command may find nothing to do. */
const CLEAR = `
for link in $(ls /sys/class/net); do case $link in lo|tunl0|sit0|ip6tnl0) ;; *) ip link delete $link ;; esac; done
for program in iptables ip6tables; do for table in nat filter mangle raw; do
  $program -t $table -F; $program -t $table -X
  for chain in INPUT OUTPUT FORWARD; do [ $table = filter ] && $program -P $chain ACCEPT; done
done; done
nft flush ruleset
ipvsadm -C; ipvsadm --set 900 120 300; ipset flush; ipset destroy; conntrack -F
echo ${DEFAULT_CONNTRACK} >/sys/module/nf_conntrack/parameters/hashsize
echo ${DEFAULT_CONNTRACK} >/proc/sys/net/netfilter/nf_conntrack_max
true
`

/** Makes the node of a case; throws when its state is not the recorded first one. */
export async function makeNode(ground: Ground, links: readonly CaseLink[]): Promise<void> {
  if (ground === 'fresh') enterNewNamespace()
  else finish(['sh', '-c', CLEAR])
  // A namespace inherits some of these from the machine.
  for (const [name, value] of Object.entries(DEFAULT_SYSCTLS)) writeFileSync(`/proc/sys/${name}`, `${value}\n`)
  const commands =
    NODE +
    links
      .flatMap(linkCommands)
      .map((command) => `${command}\n`)
      .join('')
  run(['ip', '-batch', '-'], commands)
  await checkFirstState(ground)
}

function linkCommands({ name, kind, addresses }: CaseLink): string[] {
  return [
    ...(kind === undefined ? [] : [`link add ${name} type ${kind}`, `link set ${name} addrgenmode none`]),
    `link set ${name} up`,
    ...addresses.map((address) => `address add ${address} dev ${name}${address.includes(':') ? ' nodad' : ''}`),
  ]
}

async function checkFirstState(ground: Ground): Promise<void> {
  const state = await takeState(['ipvs.txt', 'addresses.txt', 'ipset.txt', 'iptables.txt', 'ip6tables.txt'], [])
  const problems = Object.entries(state).flatMap(([file, text]) =>
    isEmpty(text) ? [] : [`${file} is not empty:\n${text}`],
  )
  const wanted = {
    ...DEFAULT_SYSCTLS,
    ...(ground === 'kernel' ? { 'net/netfilter/nf_conntrack_max': DEFAULT_CONNTRACK } : {}),
  }
  for (const [name, value] of Object.entries(wanted)) {
    const now = readFileSync(`/proc/sys/${name}`, 'utf8').trim()
    if (now !== String(value)) problems.push(`${name} is ${now} instead of ${value}`)
  }
  if (problems.length > 0)
    throw new CodedError('NODE_NOT_CLEAN', `the node is not as at the first start: ${problems.join('\n')}`)
}

/** Tables with only built-in chains count as empty. */
const isEmpty = (text: string): boolean =>
  text
    .split('\n')
    .every((line) => line === '' || line === 'COMMIT' || line.startsWith('*') || /^:\S+ ACCEPT$/.test(line))
