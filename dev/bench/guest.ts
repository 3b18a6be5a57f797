/**
 * The part of the bench that runs in the test kernel: API server, the program measured, and this process that looks on.
 * Prints one line of JSON (Measured) on stdout.
 * What could break: the guest sees the host's files, so what is written here goes into the folder that the host deletes.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { ApiServer } from './api-server.ts'
import { KernelView } from './kernel-view.ts'
import { MeasuredProgram } from './measured-program.ts'
import { measure } from './measure.ts'
import type { BenchOptions } from './options.ts'

/** What the host hands over, as one argument of JSON. */
export interface GuestTask
  extends Pick<BenchOptions, 'endpoints' | 'changes' | 'idleSeconds' | 'slope' | 'nodeFlags' | 'proxy' | 'profile'> {
  readonly services: number
  /** For configuration, logs and readings. */
  readonly folder: string
  /** The bundle's entry. */
  readonly entry: string
}

const NODE_NAME = 'node0'
/** As the API server's Node object has it. */
const NODE_ADDRESS = '172.18.0.2'

async function main(task: GuestTask): Promise<void> {
  const { services, endpoints, folder } = task
  const say = (text: string): void => {
    process.stderr.write(`  ${services} x ${endpoints}: ${text}\n`)
  }
  execFileSync('sh', [
    '-ec',
    `ip link add eth0 type dummy; ip link set eth0 up; ip address add ${NODE_ADDRESS}/24 dev eth0`,
  ])
  const pin = pinning()
  if (pin) execFileSync('taskset', ['-a', '-c', '-p', '0', String(process.pid)], { stdio: 'ignore' })
  const api = await ApiServer.start(services, endpoints, NODE_NAME)
  const kernel = await KernelView.open()
  try {
    const paths = writeConfiguration(folder, api.url)
    const start = (): MeasuredProgram =>
      new MeasuredProgram({
        command: [...(pin ? ['taskset', '-c', '1'] : []), ...commandOf(task, paths)],
        logFile: join(folder, 'program.log'),
        ...(task.proxy === undefined ? { probeFile: join(folder, 'readings') } : {}),
      })
    const { program, result } = await measure({ ...task, api, kernel, start, say })
    await program.stop()
    process.stdout.write(`${JSON.stringify(result)}\n`)
  } finally {
    kernel.close()
    await api.stop()
  }
}

/**
 * User-mode Linux runs one thread of a process at a time, and the others spin for their turn on the other processor: they
 * take it from whoever could use it. So the program measured gets one processor for itself and all the rest the other.
 */
function pinning(): boolean {
  return availableParallelism() > 1 && readFileSync('/proc/cpuinfo', 'utf8').includes('User Mode Linux')
}

interface ConfigurationPaths {
  readonly kubeconfig: string
  readonly config: string
}

function commandOf(task: GuestTask, { kubeconfig, config }: ConfigurationPaths): string[] {
  if (task.proxy !== undefined)
    return ['sh', '-c', `exec ${task.proxy.replaceAll('{kubeconfig}', kubeconfig).replaceAll('{config}', config)}`]
  const profile =
    task.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${task.profile}`, '--cpu-prof-interval=200']
  return [process.execPath, ...task.nodeFlags, ...profile, task.entry, '--config', config]
}

function writeConfiguration(folder: string, url: string): ConfigurationPaths {
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
    mode: 'ipvs',
    hostnameOverride: NODE_NAME,
    clientConnection: { kubeconfig: paths.kubeconfig },
  }
  // JSON is YAML.
  writeFileSync(paths.kubeconfig, JSON.stringify(kubeconfig))
  writeFileSync(paths.config, JSON.stringify(config))
  return paths
}

await main(JSON.parse(process.argv[2] ?? '') as GuestTask) // written by dev/bench.ts
process.exit(0)
