/**
 * What the process uses, from /proc as Prometheus' client for Go reads it, and the program's versions and feature gates.
 * What could break: a container may hide parts of /proc; what cannot be read is left out, the rest is given.
 */
import { readdir, readFile } from 'node:fs/promises'
import type { MetricsPage } from './page.ts'
import { KUBERNETES, PROCESS } from './process-families.ts'
import { KUBE_PROXY_RELEASE } from '../values/well-known.ts'

/** /proc/self/limits says `unlimited` for this (RLIM_INFINITY). */
const UNLIMITED = 2 ** 64

/** When the process started, in seconds since the epoch, to a hundredth as the kernel has it. */
export function startTimeSeconds(): number {
  return Math.round(performance.timeOrigin / 10) / 100
}

export async function writeProcess(page: MetricsPage): Promise<void> {
  const { user, system } = process.cpuUsage()
  page.value(PROCESS.cpu, [], (user + system) / 1e6)
  page.value(PROCESS.residentMemoryBytes, [], process.memoryUsage.rss())
  page.value(PROCESS.startTime, [], startTimeSeconds())
  const [stat, limits, netstat] = await Promise.all([
    textOf('/proc/self/stat'),
    textOf('/proc/self/limits'),
    textOf('/proc/self/net/netstat'),
  ])
  // After the others, which are open while they are read; as the folder itself is.
  const files = await readdir('/proc/self/fd').catch(() => undefined)
  if (files !== undefined) page.value(PROCESS.openFds, [], files.length - 1)
  // The name of the program, which may have spaces, ends with the last parenthesis; vsize is field 23 of proc(5).
  write(page, PROCESS.virtualMemoryBytes, stat.slice(stat.lastIndexOf(')') + 2).split(' ')[20])
  write(page, PROCESS.maxFds, limitOf(limits, 'Max open files'))
  write(page, PROCESS.virtualMemoryMaxBytes, limitOf(limits, 'Max address space'))
  const traffic = octets(netstat)
  write(page, PROCESS.networkReceiveBytes, traffic.get('InOctets'))
  write(page, PROCESS.networkTransmitBytes, traffic.get('OutOctets'))
}

/** Feature gates that mean something to a service proxy, with their stage and default in Kubernetes 1.36. */
const GATES: readonly (readonly [name: string, stage: string, enabled: boolean])[] = [
  ['AllAlpha', 'ALPHA', false],
  ['AllBeta', 'BETA', false],
  ['LoggingAlphaOptions', 'ALPHA', false],
  ['LoggingBetaOptions', 'BETA', true],
  ['PreferSameTrafficDistribution', '', true],
  ['WatchListClient', 'BETA', true],
]

/** @param gates `featureGates` of the configuration */
export function writeKubernetes(page: MetricsPage, gates: Readonly<Record<string, boolean>>): void {
  const { version: git, major, minor } = KUBE_PROXY_RELEASE
  const platform = `${process.platform}/${process.arch === 'x64' ? 'amd64' : process.arch}`
  page.value(KUBERNETES.buildInfo, ['', 'node', '', '', git, '', major, minor, platform], 1)
  for (const [name, stage, enabled] of GATES)
    page.value(KUBERNETES.featureEnabled, [name, stage], (gates[name] ?? enabled) ? 1 : 0)
}

function write(page: MetricsPage, family: (typeof PROCESS)[keyof typeof PROCESS], text: string | undefined): void {
  if (text === undefined || text === '') return
  const value = text === 'unlimited' ? UNLIMITED : Number(text)
  if (Number.isFinite(value)) page.value(family, [], value)
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch {
    return ''
  }
}

/** The soft limit: `Max open files  1024  4096  files`. */
function limitOf(limits: string, name: string): string | undefined {
  const line = limits.split('\n').find((text) => text.startsWith(name))
  return line?.slice(name.length).trim().split(/\s+/)[0]
}

/** The group IpExt: a line of names and one of values. Of the whole network namespace, in kube-proxy too. */
function octets(netstat: string): ReadonlyMap<string, string> {
  const [names = [], values = []] = netstat
    .split('\n')
    .filter((line) => line.startsWith('IpExt:'))
    .map((line) => line.split(' '))
  return new Map(names.map((name, index) => [name, values[index] ?? '']))
}
