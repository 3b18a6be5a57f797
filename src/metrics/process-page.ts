/**
 * The families that every program of Kubernetes has, with the help texts of kube-proxy 1.37 (a test
 * compares them), and their values: the process, read from /proc as Prometheus' client for Go reads
 * it, and versions and feature gates. A container may hide parts of /proc; a value that cannot be
 * read is left out.
 * @impure
 */
import { readdirSync, readFileSync } from 'node:fs'
import { KUBE_PROXY_RELEASE } from '../values/well-known.ts'
import type { MetricFamilies, MetricFamily, MetricsPage } from './page.ts'
import type { FeatureGate } from './sources.ts'

/** Families of the process. */
export const PROCESS = {
  cpu: {
    name: 'process_cpu_seconds_total',
    type: 'counter',
    help: 'Total user and system CPU time spent in seconds.',
    labels: [],
  },
  maxFds: {
    name: 'process_max_fds',
    type: 'gauge',
    help: 'Maximum number of open file descriptors.',
    labels: [],
  },
  networkReceiveBytes: {
    name: 'process_network_receive_bytes_total',
    type: 'counter',
    help: 'Number of bytes received by the process over the network.',
    labels: [],
  },
  networkTransmitBytes: {
    name: 'process_network_transmit_bytes_total',
    type: 'counter',
    help: 'Number of bytes sent by the process over the network.',
    labels: [],
  },
  openFds: {
    name: 'process_open_fds',
    type: 'gauge',
    help: 'Number of open file descriptors.',
    labels: [],
  },
  residentMemoryBytes: {
    name: 'process_resident_memory_bytes',
    type: 'gauge',
    help: 'Resident memory size in bytes.',
    labels: [],
  },
  startTime: {
    name: 'process_start_time_seconds',
    type: 'gauge',
    help: 'Start time of the process since unix epoch in seconds.',
    labels: [],
  },
  virtualMemoryBytes: {
    name: 'process_virtual_memory_bytes',
    type: 'gauge',
    help: 'Virtual memory size in bytes.',
    labels: [],
  },
  virtualMemoryMaxBytes: {
    name: 'process_virtual_memory_max_bytes',
    type: 'gauge',
    help: 'Maximum amount of virtual memory available in bytes.',
    labels: [],
  },
} satisfies MetricFamilies

/** Families of the program: its version and its feature gates. */
export const KUBERNETES = {
  buildInfo: {
    name: 'kubernetes_build_info',
    type: 'gauge',
    help: "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
    labels: [
      'build_date',
      'compiler',
      'git_commit',
      'git_tree_state',
      'git_version',
      'go_version',
      'major',
      'minor',
      'platform',
    ],
  },
  featureEnabled: {
    name: 'kubernetes_feature_enabled',
    type: 'gauge',
    help: '[BETA] This metric records the data about the stage and enablement of a k8s feature.',
    labels: ['name', 'stage'],
  },
} satisfies MetricFamilies

/** RLIM_INFINITY, which /proc/self/limits prints as `unlimited`. */
const UNLIMITED = 2 ** 64

/** Start of the process in seconds since the epoch, rounded to hundredths as in the kernel. */
export function startTimeSeconds(): number {
  return Math.round(performance.timeOrigin / 10) / 100
}

/** Writes what the process uses. */
export function writeProcess(page: MetricsPage): void {
  const { user, system } = process.cpuUsage()
  page.value(PROCESS.cpu, [], (user + system) / 1e6)
  page.value(PROCESS.residentMemoryBytes, [], process.memoryUsage.rss())
  page.value(PROCESS.startTime, [], startTimeSeconds())
  const stat = textOf('/proc/self/stat')
  const limits = textOf('/proc/self/limits')
  const netstat = textOf('/proc/self/net/netstat')
  const files = openFiles()
  if (files !== undefined) page.value(PROCESS.openFds, [], files)
  // proc(5): field 2, the program's name, may contain spaces and ends with the last parenthesis; vsize is field 23.
  write(page, PROCESS.virtualMemoryBytes, stat.slice(stat.lastIndexOf(')') + 2).split(' ')[20])
  write(page, PROCESS.maxFds, limitOf(limits, 'Max open files'))
  write(page, PROCESS.virtualMemoryMaxBytes, limitOf(limits, 'Max address space'))
  const traffic = octets(netstat)
  write(page, PROCESS.networkReceiveBytes, traffic.get('InOctets'))
  write(page, PROCESS.networkTransmitBytes, traffic.get('OutOctets'))
}

/** Writes the version of Kubernetes that the program behaves like, and its feature gates. */
export function writeKubernetes(page: MetricsPage, gates: readonly FeatureGate[]): void {
  const { version: git, major, minor } = KUBE_PROXY_RELEASE
  const platform = `${process.platform}/${process.arch === 'x64' ? 'amd64' : process.arch}`
  page.value(KUBERNETES.buildInfo, ['', 'node', '', '', git, '', major, minor, platform], 1)
  for (const { name, stage, enabled } of gates) page.value(KUBERNETES.featureEnabled, [name, stage], enabled ? 1 : 0)
}

function write(page: MetricsPage, family: MetricFamily, text: string | undefined): void {
  if (text === undefined || text === '') return
  const value = text === 'unlimited' ? UNLIMITED : Number(text)
  if (Number.isFinite(value)) page.value(family, [], value)
}

/**
 * Files in /proc are read at once: a way through the thread pool takes longer than the kernel needs
 * to make the text.
 */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function openFiles(): number | undefined {
  try {
    // The listed folder itself counts as one.
    return readdirSync('/proc/self/fd').length - 1
  } catch {
    return undefined
  }
}

/** The soft limit: `Max open files  1024  4096  files`. */
function limitOf(limits: string, name: string): string | undefined {
  const line = limits.split('\n').find((text) => text.startsWith(name))
  return line?.slice(name.length).trim().split(/\s+/)[0]
}

/** The group IpExt, one line of names and one of values. It counts the whole network namespace, as in kube-proxy. */
function octets(netstat: string): ReadonlyMap<string, string> {
  const [names = [], values = []] = netstat
    .split('\n')
    .filter((line) => line.startsWith('IpExt:'))
    .map((line) => line.split(' '))
  return new Map(names.map((name, index) => [name, values[index] ?? '']))
}
