/**
 * Reads the state of the node: one shell for the output of all programs, and requests to the listening ports. iptables-save
 * runs without -t, because with -t it could create a table.
 */
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { get } from 'node:http'
import { promisify } from 'node:util'
import { openNetfilter } from '../../native/open.ts'
import { readCounters } from '../../src/modes/iptables/counters.ts'
import type { State, StateFile } from './files.ts'
import {
  type Answer,
  normaliseAddresses,
  normaliseAnswers,
  normaliseConntrack,
  normaliseIpset,
  normaliseIpvs,
  normaliseRules,
  withoutKernelWide,
} from './normalise.ts'

const run = promisify(execFile)

const SYSCTLS = [
  'net/ipv4/vs/conntrack',
  'net/ipv4/vs/conn_reuse_mode',
  'net/ipv4/vs/expire_nodest_conn',
  'net/ipv4/vs/expire_quiescent_template',
  'net/ipv4/ip_forward',
  'net/ipv4/conf/all/arp_ignore',
  'net/ipv4/conf/all/arp_announce',
  'net/ipv4/conf/all/route_localnet',
  'net/ipv6/conf/all/forwarding',
  'net/netfilter/nf_conntrack_max',
  'net/netfilter/nf_conntrack_tcp_timeout_established',
  'net/netfilter/nf_conntrack_tcp_timeout_close_wait',
  'net/netfilter/nf_conntrack_tcp_be_liberal',
  'net/netfilter/nf_conntrack_udp_timeout',
  'net/netfilter/nf_conntrack_udp_timeout_stream',
]

type PrintedFile = Exclude<StateFile, 'listeners.txt' | 'nfacct.txt' | 'process.txt'>

const PRINTED: Readonly<Record<PrintedFile, { readonly command: string; normalise(text: string): string }>> = {
  'ipvs.txt': { command: 'ipvsadm -S -n', normalise: normaliseIpvs },
  'addresses.txt': { command: 'ip -j -d address show dev kube-ipvs0 2>/dev/null', normalise: normaliseAddresses },
  'ipset.txt': { command: 'ipset save', normalise: normaliseIpset },
  'iptables.txt': { command: 'iptables-save', normalise: normaliseRules },
  'ip6tables.txt': { command: 'ip6tables-save', normalise: normaliseRules },
  'conntrack.txt': { command: 'conntrack -L -p udp 2>/dev/null', normalise: normaliseConntrack },
  'sysctl.txt': { command: 'ipvsadm -L --timeout', normalise: (timeouts) => sysctlText(timeouts) },
}

const isPrinted = (file: StateFile): file is PrintedFile => Object.hasOwn(PRINTED, file)

/** Read on the main thread: `/proc/sys/net` shows the namespace of the thread that reads. */
function sysctlText(timeouts: string): string {
  const lines = SYSCTLS.map((name) => `${name} = ${valueIn(`/proc/sys/${name}`)}\n`)
  const hashsize = valueIn('/sys/module/nf_conntrack/parameters/hashsize')
  const [, ipvs = ''] = timeouts.trim().split(': ')
  return `${lines.join('')}module nf_conntrack hashsize = ${hashsize}\nipvs timeouts tcp tcpfin udp = ${ipvs}\n`
}

function valueIn(path: string): string {
  return existsSync(path) ? readFileSync(path, 'utf8').trim() : 'absent'
}

/** `healthPorts`: health check node ports that may have a listener. The caller adds process.txt. */
export async function takeState(files: readonly StateFile[], healthPorts: readonly number[]): Promise<State> {
  const printed = files.filter(isPrinted)
  const mark = '=== next'
  const script = printed.map((file) => `${PRINTED[file].command}\necho '${mark}'`).join('\n')
  const { stdout } = await run('sh', ['-c', script], { maxBuffer: 64 * 1024 * 1024, timeout: 60_000 })
  const texts = stdout.split(`${mark}\n`)
  const entries = printed.map((file, index) => [file, PRINTED[file].normalise(texts[index] ?? '')] as const)
  return {
    ...Object.fromEntries(entries),
    ...(files.includes('nfacct.txt') ? { 'nfacct.txt': await counterNames() } : {}),
    ...(files.includes('listeners.txt') ? { 'listeners.txt': normaliseAnswers(await askListeners(healthPorts)) } : {}),
  }
}

/** The state without values that a namespace can see but not set. */
export function comparable(state: State, kernelWide: boolean): State {
  const { 'sysctl.txt': sysctls } = state
  return {
    ...state,
    ...(kernelWide || sysctls === undefined ? {} : { 'sysctl.txt': withoutKernelWide(sysctls) }),
  }
}

const HEALTH_PORT = 10256

async function askListeners(healthPorts: readonly number[]): Promise<Answer[]> {
  const { stdout } = await run('ss', ['-ltnH'], { timeout: 20_000 })
  const listening = stdout.split('\n').flatMap((line) => line.trim().split(/\s+/)[3] ?? [])
  const answers: Answer[] = []
  for (const port of [HEALTH_PORT, ...healthPorts]) {
    for (const listen of listening.filter((address) => address.endsWith(`:${port}`)).sort()) {
      const host = hostOf(listen.slice(0, listen.lastIndexOf(':')))
      const paths = port === HEALTH_PORT ? ['/healthz', '/livez'] : ['/']
      for (const path of paths) answers.push(await ask(listen, `http://${host}:${port}${path}`))
    }
  }
  return answers
}

/** Where the recorder asked a socket: a listener on all addresses at loopback. */
function hostOf(address: string): string {
  if (address === '[::]') return '[::1]'
  return address === '*' || address === '0.0.0.0' ? '127.0.0.1' : address
}

function ask(listen: string, url: string): Promise<Answer> {
  return new Promise((resolve) => {
    const failed = (error: Error): void =>
      resolve({ listen, url, status: 0, reason: error.message, headers: {}, body: '' })
    // No connection may outlive its request, or it could answer for a closed listener.
    get(url, { timeout: 5_000, agent: false }, (response) => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        body += chunk
      })
      response.on('error', failed)
      response.on('end', () => {
        const { statusCode = 0, statusMessage = '', headers } = response
        resolve({ listen, url, status: statusCode, reason: statusMessage, headers, body })
      })
    }).on('error', failed)
  })
}

/** One name a line, sorted. */
export async function counterNames(): Promise<string> {
  const netlink = openNetfilter()
  try {
    const names = [...(await readCounters(netlink)).keys()].sort()
    return names.map((name) => `${name}\n`).join('')
  } finally {
    netlink.close()
  }
}
