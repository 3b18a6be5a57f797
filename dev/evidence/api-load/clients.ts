/**
 * The clients of the API server in a run: sets of our reflectors in a few processes, or one
 * kube-proxy for each node, which only watches, because its tables are synced once an hour.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tail } from '../../progress.mjs'
import type { Plan } from './plan.ts'
import type { Counts, Sets } from './sets-main.ts'

export interface Clients {
  /** Objects and removals that all nodes together have been given; undefined where nobody counts. */
  changes(): Promise<number | undefined>
  /** Rejects when a client has ended. */
  readonly ended: Promise<never>
  stop(): void
}

const MAIN = join(import.meta.dirname, 'sets-main.ts')
const PROCESSES = 2
/** A server that knows no tokens ignores it. */
export const CLIENT_TOKEN = 'of-all-clients'

/** @param folder for the kubeconfig and for logs */
export function startClients({ program, path = '' }: Plan, nodes: readonly string[], setting: Setting): Clients {
  const kubeconfig = join(setting.folder, 'kubeconfig')
  writeFileSync(kubeconfig, kubeconfigOf(setting))
  return program === 'kube-ipvs' ? startSets(nodes, kubeconfig) : startProxies(nodes, kubeconfig, path, setting.folder)
}

export interface Setting {
  readonly folder: string
  readonly url: string
  /** PEM */
  readonly ca: string
}

function startSets(nodes: readonly string[], kubeconfig: string): Clients {
  const size = Math.ceil(nodes.length / PROCESSES)
  const groups = Array.from({ length: PROCESSES }, (_, index) => nodes.slice(index * size, (index + 1) * size))
  const children = groups
    .filter((group) => group.length > 0)
    .map((group) => {
      const sets: Sets = { kubeconfig, nodes: group }
      return fork(MAIN, [JSON.stringify(sets)], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    })
  return {
    ...ends(children, () => 'its message is above'),
    async changes() {
      const counts = await Promise.all(children.map(countsOf))
      return counts.reduce((sum, { changes }) => sum + changes, 0)
    },
  }
}

async function countsOf(child: ChildProcess): Promise<Counts> {
  const answer = once(child, 'message')
  child.send('counts')
  const [counts] = await answer
  return counts as Counts // sent by sets-main.ts
}

/** It leaves the settings of the node and, after the first time, its tables alone. */
const PROXY_CONFIGURATION = {
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'nftables',
  nftables: { syncPeriod: '1h', minSyncPeriod: '1h' },
  detectLocalMode: 'ClusterCIDR',
  clusterCIDR: '10.128.0.0/9',
  conntrack: { maxPerCore: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  healthzBindAddress: '',
}

function startProxies(nodes: readonly string[], kubeconfig: string, path: string, folder: string): Clients {
  const logOf = (index: number): string => join(folder, `kube-proxy-${index}.log`)
  const config = join(folder, 'kube-proxy.json')
  writeFileSync(config, JSON.stringify({ ...PROXY_CONFIGURATION, clientConnection: { kubeconfig } }))
  const children = nodes.map((node, index) => {
    const log = openSync(logOf(index), 'w')
    const child = spawn(path, [`--config=${config}`, `--hostname-override=${node}`], { stdio: ['ignore', log, log] })
    closeSync(log)
    return child
  })
  return {
    ...ends(children, (index) => tail(readFileSync(logOf(index), 'utf8'), 3)),
    changes: async () => undefined,
  }
}

function ends(children: readonly ChildProcess[], reasonOf: (index: number) => string): Pick<Clients, 'ended' | 'stop'> {
  let isStopped = false
  const ended = new Promise<never>((_, reject) => {
    for (const [index, child] of children.entries()) {
      child.once('error', reject)
      child.once('exit', (code, signal) => {
        if (!isStopped) reject(new Error(`client ${index} ended with ${signal ?? `code ${code}`}: ${reasonOf(index)}`))
      })
    }
  })
  ended.catch(() => undefined)
  return {
    ended,
    stop() {
      isStopped = true
      for (const child of children) child.kill('SIGKILL')
    },
  }
}

function kubeconfigOf({ url, ca }: Setting): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      { name: 'c', cluster: { server: url, 'certificate-authority-data': Buffer.from(ca).toString('base64') } },
    ],
    users: [{ name: 'u', user: { token: CLIENT_TOKEN } }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'c',
  })
}
