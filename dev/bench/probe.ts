/** Asks a kernel, in a boot, whether it takes the rules of a mode that needs more than IPVS. */
import { boot, type BootOptions } from './boot.ts'
import type { AnyMode } from './result.ts'

const PROBE_TIMEOUT_MS = 60_000

/** Why this kernel cannot run the mode, for the middle of a sentence; undefined when it can. */
export async function whyNot(mode: Exclude<AnyMode, 'ipvs'>, boots: BootOptions): Promise<string | undefined> {
  const { code, stdout } = await boot(['unshare', '--net', 'sh', '-c', PROBES[mode]], PROBE_TIMEOUT_MS, boots)
  return code === 0 ? undefined : probeReason(stdout)
}

/**
 * Scripts for a new network namespace. They end with 0 when nothing is missing; otherwise their output says what is. The matches,
 * targets and expressions are those that the rules of every Service use.
 */
const PROBES: Readonly<Record<Exclude<AnyMode, 'ipvs'>, string>> = {
  iptables: `exec 2>&1
case "$(iptables --version)" in
*nf_tables*) ;;
*) echo 'iptables writes its legacy tables there, which can only be read as a whole'; exit 1 ;;
esac
add() { iptables -w -t nat -A KUBE-BENCH "$@"; }
iptables -w -t nat -N KUBE-BENCH &&
add -m comment --comment probe -m statistic --mode random --probability 0.5 -j ACCEPT &&
add -m addrtype --dst-type LOCAL -m mark --mark 0x4000/0x4000 -j MARK --set-xmark 0x4000/0x4000 &&
add -m conntrack --ctstate NEW -m tcp -p tcp --dport 80 -j ACCEPT &&
iptables -w -t nat -N KUBE-BENCH-SEP &&
iptables -w -t nat -A KUBE-BENCH-SEP -p tcp -j DNAT --to-destination 192.0.2.1:80 &&
iptables -w -t nat -A POSTROUTING -j MASQUERADE --random-fully`,
  nftables: `exec 2>&1
nft -f - <<'RULES'
table ip bench {
  map services { type ipv4_addr . inet_proto . inet_service : verdict; comment "probe"; }
  chain endpoint { meta l4proto tcp dnat to 192.0.2.1:80; }
  chain service { numgen random mod 2 vmap { 0 : goto endpoint, 1 : goto endpoint }; }
  chain nat { type nat hook prerouting priority -100; ip daddr . meta l4proto . th dport vmap @services; fib daddr type local accept; }
  chain post { type nat hook postrouting priority 100; mark and 0x4000 != 0 mark set mark xor 0x4000 masquerade fully-random; }
}
RULES`,
}

/** The first line of the probe's output, for the middle of a sentence. */
export function probeReason(output: string): string {
  const [line = ''] = output
    .split('\n')
    .map((text) => text.trim())
    .filter((text) => text !== '' && !text.startsWith('#'))
  return line === '' ? 'its network namespaces cannot be used' : line.replace(/\.$/, '')
}
