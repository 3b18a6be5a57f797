/** The node inside the guest: its address, and the command line and configuration of each program that runs there. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { NODE_FLAGS } from '../node-flags.ts'
import type { Mode, Subject } from './result.ts'

/** The name of the API server's Node object. */
export const NODE_NAME = 'node0'
/** What Node loads into a program that is watched from inside. */
const SUBSCRIBER = join(import.meta.dirname, 'subscriber.cjs')
const NODE_ADDRESS = '172.18.0.2'
/** Loopback replaces it where the kernel has no dummy links (a machine's own, for iptables mode). */
const ADD_ADDRESS = `
ip link add eth0 type dummy 2>/dev/null && ip link set eth0 up && ip address add ${NODE_ADDRESS}/24 dev eth0 ||
  ip address add ${NODE_ADDRESS}/32 dev lo`

export function addNodeAddress(): void {
  execFileSync('sh', ['-ec', ADD_ADDRESS])
}

export interface ConfigurationPaths {
  readonly kubeconfig: string
  readonly config: string
}

/** How a program is started. */
export interface ProgramCommand extends Pick<Subject, 'program'> {
  /** The bundle's entry, or kube-proxy's path. */
  readonly command: string
}

/** @param watched our program is watched from inside, see `MeasuredProgram.watchEventLoop` */
export function commandOf(
  { program, command }: ProgramCommand,
  { config }: ConfigurationPaths,
  watched = false,
): string[] {
  if (program === 'kube-proxy') return [command, `--config=${config}`]
  return [process.execPath, ...NODE_FLAGS, ...(watched ? ['--require', SUBSCRIBER] : []), command, '--config', config]
}

/**
 * Writes kubeconfig and configuration, the same for every program. @param more fields beside those
 * that every program needs
 */
export function writeConfiguration(folder: string, mode: Mode, url: string, more: object = {}): ConfigurationPaths {
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
    ...more,
  }
  // JSON is YAML.
  writeFileSync(paths.kubeconfig, JSON.stringify(kubeconfig))
  writeFileSync(paths.config, JSON.stringify(config))
  return paths
}
