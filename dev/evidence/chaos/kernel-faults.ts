/** Faults of the kernel's state: what another program removes, what is full, and what does not end. */
import { chmodSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Fault } from './fault.ts'
import type { ChaosNode } from './node.ts'

/** Some times the period of the audits, for a slow machine. */
const AUDIT_S = 90
const AT_ONCE_S = 10
const CONNTRACK_MAX = '/proc/sys/net/netfilter/nf_conntrack_max'
/** Restores of both back ends, which a program may start by either name. */
const RESTORES = ['', '6'].flatMap((family) =>
  ['', '-nft', '-legacy'].map((backEnd) => `ip${family}tables${backEnd}-restore`),
)
/** Addresses that are added and removed while the program does not read, and how often at most. */
const FLOOD = 5_000
const ROUNDS = 20
/** New connections in the moment of a gap, at most: a second of them. */
const GAP = 25

export const KERNEL_FAULTS: readonly Fault[] = [
  {
    name: 'ip_vs unloaded',
    expectation: {
      text: 'the kernel forgets its connections; the module is loaded again, or rules take over',
      dropped: 'any',
      failed: 'any',
      change: { from: 'fault', withinS: AUDIT_S },
      repairedWithinS: AUDIT_S,
    },
    kernel: 'modules',
    seconds: 30,
    // The kernel unloads it only while it has neither a virtual server nor a rule with the match ipvs.
    inject: (node) => {
      process.kill(node.pid, 'SIGSTOP')
      node.sh(`ipvsadm -C
for program in iptables ip6tables; do
  $program-legacy-save 2>/dev/null | grep -v -e '-m ipvs' | $program-legacy-restore || true
done
modprobe -r xt_ipvs $(lsmod | grep -o '^ip_vs_[a-z]*') ip_vs`)
      process.kill(node.pid, 'SIGCONT')
    },
  },
  {
    name: 'device kube-ipvs0 deleted',
    expectation: {
      text: 'established connections continue: device and addresses return at once; new ones fail in between',
      failed: GAP,
      change: { from: 'fault', withinS: AT_ONCE_S },
      repairedWithinS: AT_ONCE_S,
    },
    seconds: 15,
    inject: (node) => void node.sh('ip link delete kube-ipvs0'),
  },
  {
    name: 'virtual servers removed (ipvsadm -C)',
    expectation: {
      text: 'the kernel resets connections without a virtual server (expire_nodest_conn), and new ones fail until the next audit (30 s)',
      dropped: 'any',
      failed: 'any',
      change: { from: 'fault', withinS: AT_ONCE_S },
      repairedWithinS: AUDIT_S,
    },
    seconds: 45,
    inject: (node) => void node.sh('ipvsadm -C'),
  },
  {
    name: 'sets flushed and destroyed',
    expectation: {
      text: 'nothing is lost; until the next audit (30 s) source ranges do not hold, and new connections are not masqueraded',
      change: { from: 'fault', withinS: AT_ONCE_S },
      repairedWithinS: AUDIT_S,
    },
    seconds: 45,
    // A set that a rule names can be emptied, but not destroyed.
    inject: (node) => void node.sh('ipset flush; ipset destroy 2>/dev/null || true'),
  },
  {
    name: 'rules flushed (iptables -F), sets destroyed',
    expectation: {
      text: 'the kernel tracks no connections while no rule needs it, so masqueraded ones are reset; rules return at once, sets at the next audit (30 s)',
      dropped: 'any',
      change: { from: 'fault', withinS: AUDIT_S },
      repairedWithinS: AUDIT_S,
    },
    seconds: 45,
    // Without -X: iptables-nft then removes the built-in chains too, as the flush of a ruleset does.
    inject: (node) =>
      void node.sh(`for table in filter nat mangle; do iptables -w -t $table -F; done
ipset destroy 2>/dev/null || true`),
  },
  {
    name: 'nft flush ruleset, with the iptables firewall',
    expectation: {
      text: 'the same: masqueraded connections are reset, and rules return at once',
      dropped: 'any',
      failed: GAP,
      change: { from: 'fault', withinS: AT_ONCE_S },
      repairedWithinS: AT_ONCE_S,
    },
    configuration: { kubeIPVS: { firewall: 'iptables' } },
    seconds: 15,
    inject: (node) => void node.sh('nft flush ruleset'),
  },
  {
    name: 'nft flush ruleset, with the nftables firewall',
    expectation: {
      text: 'nothing is lost: the private tables have an owner and stay, or return at once',
      change: { from: 'fault', withinS: AT_ONCE_S },
      repairedWithinS: AT_ONCE_S,
    },
    configuration: { kubeIPVS: { firewall: 'nftables' } },
    seconds: 15,
    inject: (node) => void node.sh('nft flush ruleset'),
  },
  {
    name: 'iptables-restore hangs, in iptables mode',
    expectation: {
      text: 'nothing is lost; changes wait; /livez fails when the first restore was ended (60 s) and 2 x syncPeriod have passed (60 s)',
      change: { from: 'end', withinS: 200 },
      livez: 'fails',
      reads: /iptables-restore/,
    },
    mode: 'iptables',
    seconds: 150,
    prepare: (node) => {
      const programs = join(node.folder, 'programs')
      mkdirSync(programs)
      for (const name of RESTORES) {
        const script = `#!/bin/sh\n[ -e ${programs}/hang ] && exec sleep 1000\nexec /usr/sbin/${name} "$@"\n`
        node.write(join(programs, name), script)
        chmodSync(join(programs, name), 0o755)
      }
      process.env['PATH'] = `${programs}:${process.env['PATH']}`
    },
    inject: (node) => node.write(join(node.folder, 'programs/hang'), ''),
    heal: (node) => rmSync(join(node.folder, 'programs/hang')),
  },
  {
    name: 'conntrack table full',
    expectation: {
      text: 'established connections continue and changes are applied; the kernel drops new connections, probes of the node too',
      failed: 'any',
      change: { from: 'fault', withinS: AT_ONCE_S },
      livez: 'any',
    },
    seconds: 20,
    inject: (node) => {
      node.notes.push(`nf_conntrack_max was ${readFileSync(CONNTRACK_MAX, 'latin1').trim()}`)
      node.sh(
        `cp ${CONNTRACK_MAX} ${node.folder}/max; cat /proc/sys/net/netfilter/nf_conntrack_count >${CONNTRACK_MAX}`,
      )
    },
    heal: (node) => void node.sh(`cat ${node.folder}/max >${CONNTRACK_MAX}`),
  },
  {
    name: 'netlink receive overruns (ENOBUFS)',
    expectation: {
      text: 'established connections continue: what was announced in vain, here that an address was removed, is read again at once; new ones to that address fail in between',
      failed: GAP,
      change: { from: 'fault', withinS: AT_ONCE_S },
      repairedWithinS: AT_ONCE_S,
    },
    seconds: 15,
    inject: (node) => {
      process.kill(node.pid, 'SIGSTOP')
      node.sh('ip link add flood type dummy; ip link set flood up')
      const before = drops(node)
      for (let rounds = 0; drops(node) === before; rounds++) {
        if (rounds === ROUNDS) throw new Error('no announcement was lost')
        for (const change of ['add', 'delete'])
          node.sh(`seq 0 ${FLOOD - 1} |
awk '{ printf "address ${change} 198.18.%d.%d/32 dev flood\\n", $1 / 256, $1 % 256 }' | ip -batch -`)
      }
      node.sh('ip link delete flood; ip address delete 203.0.113.10/32 dev kube-ipvs0')
      node.notes.push(`${drops(node) - before} announcements lost`)
      process.kill(node.pid, 'SIGCONT')
    },
  },
  {
    name: 'two proxies that disagree',
    expectation: {
      text: 'established connections continue; new ones are refused while the kernel changes a scheduler; the log says that another program writes',
      failed: 'any',
      change: { from: 'fault', withinS: AT_ONCE_S },
      reads: /another program changed|rival/,
    },
    configuration: { ipvs: { syncPeriod: '5s' } },
    seconds: 60,
    inject: (node) => node.startFurther({ ipvs: { syncPeriod: '5s', scheduler: 'lc' } }),
    heal: async (node) => node.stopFurther(),
  },
]

/** Datagrams that did not fit into the sockets of the program. */
function drops({ pid }: ChaosNode): number {
  const rows = readFileSync(`/proc/${pid}/net/netlink`, 'latin1').trim().split('\n').slice(1)
  // Columns: sk, Eth, Pid, Groups, Rmem, Wmem, Dump, Locks, Drops, Inode.
  return rows.reduce((sum, row) => sum + Number(row.trim().split(/\s+/)[8]), 0)
}
