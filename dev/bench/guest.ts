/**
 * The part of the bench that runs in the measured kernel: the API server, the program that is measured, and this process that
 * observes them. Prints one line of JSON (Measured, for traffic TrafficMeasured) on stdout. All files that are written are in memory of the guest: its
 * other files are the host's, and a log line that waits for the host's disk would show in every time.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ApiServerProcess } from './api-server-process.ts'
import { IptablesTable } from './iptables-table.ts'
import { IpvsTable } from './ipvs-table.ts'
import { MeasuredProgram } from './measured-program.ts'
import { countSystemCalls, type GuestWork, measure, type MeasureOptions } from './measure.ts'
import type { BenchOptions } from './options.ts'
import type { Mode, Subject } from './result.ts'
import { TableView } from './table-view.ts'
import { measureTraffic, type TrafficTask } from './traffic.ts'

/** The task from the host, as one argument of JSON. */
export interface GuestTask
  extends Subject,
    Pick<BenchOptions, 'endpoints' | 'changes' | 'idleSeconds' | 'slope' | 'nodeFlags' | 'profile'> {
  readonly work: GuestWork
  readonly services: number
  /** The bundle's entry, kube-proxy's path, or the command line that --proxy names. */
  readonly command: string
  /** For the work `traffic`. */
  readonly traffic?: TrafficTask
}

const NODE_NAME = 'node0'
/** The name of the API server's Node object. */
const NODE_ADDRESS = '172.18.0.2'
/** Loopback replaces it where the kernel has no dummy links (a machine's own, for iptables mode). */
const ADD_ADDRESS = `
ip link add eth0 type dummy 2>/dev/null && ip link set eth0 up && ip address add ${NODE_ADDRESS}/24 dev eth0 ||
  ip address add ${NODE_ADDRESS}/32 dev lo`

async function main(task: GuestTask): Promise<void> {
  const { services, endpoints } = task
  const folder = mkdtempSync('/run/kube-ipvs-bench-')
  execFileSync('sh', ['-ec', ADD_ADDRESS])
  const api = await ApiServerProcess.start(services, endpoints, NODE_NAME)
  const table = new TableView(task.mode === 'ipvs' ? await IpvsTable.open() : new IptablesTable())
  try {
    const command = commandOf(task, writeConfiguration(folder, task.mode, api.url))
    const options: MeasureOptions = {
      ...task,
      api,
      table,
      start: (stopped) =>
        new MeasuredProgram({
          command,
          stopped,
          logFile: join(folder, 'program.log'),
          // iptables mode has no netlink connections to count.
          ...(task.program === 'kube-ipvs' && task.mode === 'ipvs' ? { probeFile: join(folder, 'readings') } : {}),
        }),
      say: (text) =>
        process.stderr.write(`  ${services} x ${endpoints}, ${task.program} in ${task.mode} mode: ${text}\n`),
    }
    const { program, result } =
      task.traffic !== undefined
        ? await measureTraffic(options, task.traffic)
        : task.work === 'counted'
          ? await countSystemCalls(options, join(folder, 'system-calls'))
          : await measure(options)
    await program.stop()
    process.stdout.write(`${JSON.stringify(result)}\n`)
  } finally {
    table.close()
    await api.stop()
  }
}

interface ConfigurationPaths {
  readonly kubeconfig: string
  readonly config: string
}

function commandOf(task: GuestTask, { kubeconfig, config }: ConfigurationPaths): string[] {
  const { command, profile } = task
  switch (task.program) {
    case 'kube-ipvs': {
      const profiling =
        profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`, '--cpu-prof-interval=200']
      return [process.execPath, ...task.nodeFlags, ...profiling, command, '--config', config]
    }
    case 'kube-proxy':
      return [command, `--config=${config}`]
    case 'other':
      return ['sh', '-c', `exec ${command.replaceAll('{kubeconfig}', kubeconfig).replaceAll('{config}', config)}`]
  }
}

/** The same for every program. */
function writeConfiguration(folder: string, mode: Mode, url: string): ConfigurationPaths {
  const paths = { kubeconfig: join(folder, 'kubeconfig'), config: join(folder, 'config.yaml') }
  const kubeconfig = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'bench', cluster: { server: url } }],
    users: [{ name: 'bench', user: {} }],
    contexts: [{ name: 'bench', context: { cluster: 'bench', user: 'bench' } }],
    'current-context': 'bench',
  }
  const config = {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode,
    hostnameOverride: NODE_NAME,
    clientConnection: { kubeconfig: paths.kubeconfig },
    // A network namespace of the machine's own kernel cannot set these.
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  }
  // JSON is YAML.
  writeFileSync(paths.kubeconfig, JSON.stringify(kubeconfig))
  writeFileSync(paths.config, JSON.stringify(config))
  return paths
}

await main(JSON.parse(process.argv[2] ?? '') as GuestTask) // written by bench.ts
process.exit(0)
