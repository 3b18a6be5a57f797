/** Asks a kernel, in a boot, whether it takes the rules of iptables mode, which needs more than IPVS. */
import { boot, type BootOptions } from './boot.ts'

const PROBE_TIMEOUT_MS = 60_000

/** Why this kernel cannot run iptables mode, for the middle of a sentence; undefined when it can. */
export async function whyNotIptables(boots: BootOptions): Promise<string | undefined> {
  const { code, stdout } = await boot(['unshare', '--net', 'sh', '-c', PROBE], PROBE_TIMEOUT_MS, boots)
  return code === 0 ? undefined : probeReason(stdout)
}

/**
 * A script for a new network namespace. It ends with 0 when nothing is missing; otherwise its
 * output says what is. The matches and targets are those that the rules of every Service use.
 */
const PROBE = `exec 2>&1
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
iptables -w -t nat -A POSTROUTING -j MASQUERADE --random-fully`

/** The first line of the probe's output, for the middle of a sentence. */
export function probeReason(output: string): string {
  const [line = ''] = output
    .split('\n')
    .map((text) => text.trim())
    .filter((text) => text !== '' && !text.startsWith('#'))
  return line === '' ? 'its network namespaces cannot be used' : line.replace(/\.$/, '')
}
