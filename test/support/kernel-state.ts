/**
 * What the kernel of this network namespace has, as text from programs that are independent of our
 * codecs: ipvsadm, ip, ipset, iptables-save. During a wait they start only when the kernel says
 * over netlink that something has changed (waiting.ts).
 */
import { realpathSync } from 'node:fs'
import { NFT } from './bare-guest.ts'
import {
  ipsetFingerprint,
  ipvsFingerprint,
  linksFingerprint,
  networkFingerprint,
  nftFingerprint,
} from './fingerprints.ts'
import { enterNewNamespace } from './net-namespace.ts'
import { finish, run, sh } from './programs.ts'
import { readByProgram } from './waiting.ts'

/** The output of `ipvsadm` with these arguments. */
export const ipvsadm = (...args: readonly string[]): string =>
  readByProgram(`ipvsadm ${args.join(' ')}`, ipvsFingerprint, () => run(['ipvsadm', ...args]))

/** `ipvsadm -S -n`, sorted. */
export const virtualServers = (): string[] => linesOf(ipvsadm('-S', '-n')).sort()

/** Addresses on kube-ipvs0 with prefix lengths, sorted, without the link-local one. */
export function boundAddresses(): string[] {
  // It fails when there is no such device.
  const show = (): string => finish(['ip', '-o', 'address', 'show', 'dev', 'kube-ipvs0']).stdout
  return linesOf(readByProgram('ip address', networkFingerprint, show))
    .flatMap((line) => / inet6? (\S+)/.exec(line)?.[1] ?? [])
    .filter((address) => !address.startsWith('fe80:'))
    .sort()
}

/** Local routes of the program with prefix lengths, sorted. */
export function localRoutes(): string[] {
  // A kernel without IPv6 fails for that family.
  const show = (): string =>
    ['-4', '-6']
      .map((family) => finish(['ip', family, 'route', 'show', 'table', 'local', 'proto', '73']).stdout)
      .join('')
  return linesOf(readByProgram('ip route', networkFingerprint, show))
    .flatMap((line) => /^local (\S+)/.exec(line)?.[1] ?? [])
    .map((address) => `${address}/${address.includes(':') ? 128 : 32}`)
    .sort()
}

/** `ip link`: every link with its state. */
export const links = (): string => readByProgram('ip link', linksFingerprint, () => run(['ip', 'link']))

/** A program of iptables (`ip6tables-nft-save -t nat`, `iptables-save`) or `nft`, with arguments. */
export function rulesText(command: string): string {
  const [program = '', ...args] = command.split(' ')
  const argv = [program === 'nft' ? NFT : program, ...args]
  return readByProgram(command, readsNft(program) ? nftFingerprint : undefined, () => run(argv))
}

/** Legacy rules have no generation, and the kernel announces none of their changes. */
function readsNft(program: string): boolean {
  if (program.includes('-legacy')) return false
  return (
    program === 'nft' || program.includes('-nft') || realpathSync(`/usr/sbin/${program}`).endsWith('xtables-nft-multi')
  )
}

/** `ipset save`, with arguments. */
export const setsText = (...args: readonly string[]): string =>
  readByProgram(`ipset ${args.join(' ')}`, ipsetFingerprint, () => run(['ipset', ...args]))

/**
 * What a program prints about our sets or rules: `ipset save` (without what another ipset or kernel
 * adds), `iptables-save`.
 */
export function kubeLines(command: string): string[] {
  const text = command === 'ipset save' ? setsText('save') : rulesText(command)
  return linesOf(text)
    .filter((line) => /KUBE-/.test(line))
    .map((line) => line.replace(/ bucketsize .*$/, ''))
}

const linesOf = (text: string): string[] => text.split('\n').filter((line) => line !== '')

/** For `ip -batch`. */
const NODE = `link set lo up
link add eth0 type dummy
link set eth0 up
address add 10.0.2.15/24 dev eth0
`

/**
 * Moves this process to a new network namespace that looks like a node: eth0 with 10.0.2.15, and
 * empty tables. What was started or opened before stays in the old one, which ends with the last of
 * it.
 */
export function freshNode(): void {
  enterNewNamespace()
  run(['ip', '-batch', '-'], NODE)
}

/** Empties IPVS, which the tests of a cluster share. */
export function removeVirtualServers(): void {
  sh('ipvsadm -C; ip link delete kube-ipvs0 2>/dev/null || true')
}
