/**
 * Reads the state of the node: the output of programs, which during a wait start again only after a
 * change, and the answers of the listening ports. iptables-save runs without -t, because with -t it
 * could create a table.
 */
import { existsSync, readFileSync } from 'node:fs'
import { get } from 'node:http'
import { openNetfilter } from '../../native/open.ts'
import { readCounters } from '../../src/modes/iptables/counters.ts'
import { networkFingerprint } from '../support/fingerprints.ts'
import { ipvsadm, rulesText, setsText } from '../support/kernel-state.ts'
import { finish, run } from '../support/programs.ts'
import { readByProgram } from '../support/waiting.ts'
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

interface Printed {
  read(): string
  normalise(text: string): string
}

const showDevice = (): string => finish(['ip', '-j', '-d', 'address', 'show', 'dev', 'kube-ipvs0']).stdout

const PRINTED: Readonly<Record<PrintedFile, Printed>> = {
  'ipvs.txt': { read: () => ipvsadm('-S', '-n'), normalise: normaliseIpvs },
  'addresses.txt': {
    read: () => readByProgram('ip -d address', networkFingerprint, showDevice),
    normalise: normaliseAddresses,
  },
  'ipset.txt': { read: () => setsText('save'), normalise: normaliseIpset },
  'iptables.txt': { read: () => rulesText('iptables-save'), normalise: normaliseRules },
  'ip6tables.txt': { read: () => rulesText('ip6tables-save'), normalise: normaliseRules },
  'conntrack.txt': { read: () => finish(['conntrack', '-L', '-p', 'udp']).stdout, normalise: normaliseConntrack },
  'sysctl.txt': { read: () => run(['ipvsadm', '-L', '--timeout']), normalise: (timeouts) => sysctlText(timeouts) },
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
  const entries = files.filter(isPrinted).map((file) => [file, PRINTED[file].normalise(PRINTED[file].read())] as const)
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
  const listening = readByProgram('ss', listenersFingerprint, () => run(['ss', '-ltnH']))
    .split('\n')
    .flatMap((line) => line.trim().split(/\s+/)[3] ?? [])
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

/** The sockets of TCP that listen (state 0A), with their numbers, which differ for a new one at the same address. */
const listenersFingerprint = (): string =>
  ['tcp', 'tcp6']
    .flatMap((table) => readFileSync(`/proc/self/net/${table}`, 'utf8').split('\n'))
    .flatMap((line) => {
      const [, local, , state, , , , , , inode] = line.trim().split(/\s+/)
      return state === '0A' ? [`${local} ${inode}`] : []
    })
    .join()

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
    const request = get(url, { timeout: 5_000, agent: false }, (response) => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        body += chunk
      })
      response.on('error', failed)
      response.on('end', () => {
        const { statusCode = 0, statusMessage = '', headers } = response
        resolve({ listen, url, status: statusCode, reason: statusMessage, headers, body })
        // A server that is killed may leave its end open.
        request.destroy()
      })
    })
    request.on('error', failed)
    request.on('timeout', () => request.destroy(new Error('no answer in time')))
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
