/**
 * What a kernel test needs besides IPVS: `test('...', needs('nft'), ...)`, also for a suite. A
 * missing need makes a skip whose reason starts with `needs`; the runner lists and counts those,
 * and never as passed. Every probe runs in temporary namespaces, so it leaves nothing in the
 * kernel.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { release } from 'node:os'
import { join } from 'node:path'
import { IMAGE_VARIABLE } from '../../dev/image/contents.ts'
import { canBeBare, chosenKernel } from '../../dev/kernel/choice.ts'
import { ANSWERS_VARIABLE } from '../../dev/testing/variables.ts'
import { NFT } from '../support/bare-guest.ts'
import { deadline } from '../support/deadline.ts'

export type Need =
  /** nf_tables with the nft program, which a bare guest has out of PATH */
  | 'nft'
  /** iptables over nf_tables (iptables-nft) */
  | 'iptables-nft'
  /** the ip_tables kernel interface (iptables-legacy) */
  | 'legacy-iptables'
  /** IPVS takes SCTP */
  | 'sctp'
  /** there are sockets of SCTP */
  | 'sctp-sockets'
  /** `ip_vs_mh`: the scheduler mh */
  | `ip_vs_${string}`
  /** an ipset type, `ipset:hash:ip,port` */
  | `ipset:${string}`
  /** a release, `kernel>=6.2` */
  | `kernel>=${number}.${number}`
  /** x86-64, for whose system calls the seccomp profile of the tests is written */
  | 'x86-64'
  /** a separate kernel in a guest, not this machine's */
  | 'guest'
  /** a kernel that lacks a module and cannot load it, `kernel-without:ip_vs`; asking takes root */
  | `kernel-without:${string}`
  /** a module that is not loaded and can be, `loadable:arp_tables` */
  | `loadable:${string}`
  /** the kernel in dev/kernel/image, whose ip_set and xtables are modules */
  | 'firewall-modules'
  /** the root file system of the image, see `dev/test.ts` */
  | 'image'
  /** a program in PATH, `program:gcc` */
  | `program:${string}`

/** Options for a test or suite: it is skipped, with the reason, unless everything is here. */
export function needs(...wanted: readonly Need[]): { readonly skip: string | false } {
  const missing = wanted.filter((need) => !isMet(need))
  return { skip: missing.length === 0 ? false : `needs ${missing.join(' and ')}` }
}

const answers = new Map<Need, boolean>()

export function isMet(need: Need): boolean {
  const known = answers.get(need) ?? toldAnswer(need)
  const answer = known ?? probe(need)
  answers.set(need, answer)
  if (known === undefined) tellAnswer(need, answer)
  return answer
}

/** Where the files of this guest tell each other their answers; undefined: each asks for itself. */
const folder = process.env[ANSWERS_VARIABLE]

/** Each answer is an empty file, which appears at once. */
const placeOf = (need: Need, answer: boolean): string =>
  join(folder ?? '', `${answer ? 'yes' : 'no'} ${encodeURIComponent(need)}`)

function toldAnswer(need: Need): boolean | undefined {
  return folder === undefined ? undefined : [true, false].find((answer) => existsSync(placeOf(need, answer)))
}

function tellAnswer(need: Need, answer: boolean): void {
  if (folder !== undefined) writeFileSync(placeOf(need, answer), '')
}

function probe(need: Need): boolean {
  if (need === 'nft') return succeeds(`${NFT} add table ip probe`)
  if (need === 'iptables-nft') return succeeds('iptables-nft -t nat -N PROBE')
  if (need === 'legacy-iptables') return succeeds('iptables-legacy -t nat -N PROBE')
  // IPVS takes virtual servers of SCTP without knowing it.
  if (need === 'sctp')
    return succeeds("ipvsadm -A --sctp-service 192.0.2.1:1 -s rr && grep -q ' sctp_conn_schedule' /proc/kallsyms")
  if (need === 'sctp-sockets') return succeeds(`perl -e 'exit !socket(S, 2, 1, 132)'`)
  if (need.startsWith('ip_vs_')) return succeeds(`ipvsadm -A -t 192.0.2.1:1 -s ${need.slice('ip_vs_'.length)}`)
  if (need.startsWith('ipset:')) return succeeds(`ipset create probe ${need.slice('ipset:'.length)}`)
  if (need === 'x86-64') return process.arch === 'x64'
  if (need === 'guest') return chosenKernel(process.env)?.kind !== 'host'
  if (need === 'firewall-modules') return canBeBare(chosenKernel(process.env) ?? { kind: 'host' })
  if (need.startsWith('kernel-without:'))
    return succeeds(`! modprobe -q ${need.slice('kernel-without:'.length)} && ! test -e /proc/net/ip_vs`)
  if (need.startsWith('loadable:'))
    return succeeds(`modprobe -n -v ${need.slice('loadable:'.length)} | grep -q ^insmod`)
  if (need === 'image') return process.env[IMAGE_VARIABLE] !== undefined
  if (need.startsWith('program:')) return succeeds(`command -v ${need.slice('program:'.length)}`)
  return isAtLeast(release(), need.slice('kernel>='.length))
}

const succeeds = (command: string): boolean =>
  spawnSync('unshare', ['--net', 'sh', '-c', command], { stdio: 'ignore', timeout: deadline(30_000) }).status === 0

/** `6.12.3-amd64` is at least `6.2`. */
export function isAtLeast(kernel: string, wanted: string): boolean {
  const [major = 0, minor = 0] = kernel.split('.').map((part) => Number.parseInt(part, 10))
  const [wantedMajor = 0, wantedMinor = 0] = wanted.split('.').map(Number)
  return major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)
}
