/** What the kernel has of the program, as sorted lines of the programs of others, without counters. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'

const run = promisify(execFile)
/** Each may be missing or fail: a kernel without nf_tables, a device that was deleted. */
const SCRIPT = `
ipvsadm -S -n
ip -o address show dev kube-ipvs0
ipset save
iptables-nft-save; ip6tables-nft-save; iptables-legacy-save; ip6tables-legacy-save
nft list table ip kube-ipvs | tr ',' '\\n'`

/** Reads all of it. */
export async function tableLines(): Promise<ReadonlySet<string>> {
  // iptables-nft-save and -legacy-save warn about each other.
  const { stdout } = await run('sh', ['-c', SCRIPT], { maxBuffer: 64 << 20, timeout: 60_000 }).catch((error: unknown) =>
    Object(error),
  )
  return new Set(linesOf(String(stdout)))
}

/** Lines that do not change by themselves. */
export function linesOf(text: string): string[] {
  return text
    .split('\n')
    .filter((line) => /^-[Aa] |^create KUBE|^add KUBE|KUBE-|kube-ipvs0|[0-9a-f.:]+ \./.test(line))
    .map((line) =>
      line
        .replace(/^\d+: /, '')
        .replaceAll(
          /\[\d+:\d+\]|counter packets \d+ bytes \d+|bucketsize \d+|initval \S+|valid_lft.*|elements = \{|[{}]/g,
          '',
        )
        .trim(),
    )
    .filter((line) => !line.includes('inet6 fe80'))
}

export const without = (lines: ReadonlySet<string>, those: ReadonlySet<string>): string[] =>
  [...lines].filter((line) => !those.has(line))

/** Whether IPVS leads from this address, port 80, to an endpoint. */
export function isVirtualServer(address: string): boolean {
  const hex = address
    .split('.')
    .map((part) => Number(part).toString(16).toUpperCase().padStart(2, '0'))
    .join('')
  try {
    return new RegExp(`^TCP {2}${hex}:0050 .*\\n {2}->`, 'm').test(readFileSync('/proc/net/ip_vs', 'latin1'))
  } catch {
    return false // IPVS is unloaded
  }
}

/** The same of iptables mode, whatever the back end. */
export async function hasServiceRule(address: string): Promise<boolean> {
  const script = 'iptables-nft-save -t nat; iptables-legacy-save -t nat'
  const { stdout } = await run('sh', ['-c', script], { maxBuffer: 64 << 20 }).catch((error: unknown) => Object(error))
  return String(stdout).includes(`-A KUBE-SERVICES -d ${address}/32 `)
}
