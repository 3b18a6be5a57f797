/**
 * Collects the facts of this node, once and in one place. Nothing is changed; a fact that cannot be
 * read says why, and never stops the others. What it needs of the daemon and of the command line is
 * given to it.
 * @impure
 */
import { hostname } from 'node:os'
import type { KubeProxyConfiguration } from '../config/types.ts'
import type { FirewallName } from '../modes/chosen-firewall.ts'
import { type Look, withLook } from '../modes/look/look.ts'
import { kernelFamilies } from '../node/families.ts'
import { thisHost } from '../node/host.ts'
import { schedulerOf } from '../ipvs/scheduler.ts'
import { isLinkLocal, isLoopback } from '../values/address.ts'
import { errorText } from '../values/errors.ts'
import { VERSION } from '../values/well-known.ts'
import type { AccessProvider } from '../watch/api/access.ts'
import { unseen } from './seen.ts'
import { FACTS, FACTS_FORMAT, type InterfaceFact, type NodeFacts } from './facts.ts'
import { readSilentServer } from './read-api-server.ts'
import { readCluster, type ThisHost } from './read-cluster.ts'
import {
  hasNetAdmin,
  readCiliumReplacement,
  readConntrack,
  readKeepalivedServers,
  readKubeProxyOrigins,
  readNetworkd,
  readProcesses,
  readSettings,
  readSysctlLines,
  readUnmanagedDevices,
} from './read-files.ts'
import { readIpvsSctp, readIpvsTable } from './read-ipvs.ts'
import { readPaths } from './read-paths.ts'
import { attempt, readClock, readInterfaces, readIpvs, readNft, readRules } from './read-kernel.ts'

export interface CollectOptions {
  readonly configuration: KubeProxyConfiguration
  /** Where the configuration is from, and why the file was refused. */
  readonly from: string
  readonly error: string | null
  readonly nodeName: string
  /** The mode that the running proxy answers, and whether it is kube-ipvs. */
  readonly running: { readonly mode: string | null; readonly isOurs: boolean }
  /** What the daemon says about itself; null: none listens. */
  readonly daemon: Pick<NodeFacts, 'daemon' | 'daemonSilence'>
  /** Access to the API server; absent: none is named. */
  readonly access: (() => Promise<AccessProvider>) | undefined
  /** The commands of a first pass; absent: no source of Services is named. */
  readonly changes: (() => Promise<readonly string[]>) | undefined
  readonly signal: AbortSignal
}

const NO_SOURCE = 'no cluster is named: --config, --kubeconfig or --master names one'
const MAX_COMMANDS = 200

/** Rejects only when the facts exceed the bounds of a bundle, which is a bug. */
export function collectFacts(options: CollectOptions): Promise<NodeFacts> {
  return withLook((look) => factsOf(look, options))
}

async function factsOf(look: Look, options: CollectOptions): Promise<NodeFacts> {
  const { configuration, access, changes, signal, running } = options
  const { release, distributions } = thisHost()
  const nodeName = options.nodeName || hostname()
  const interfaces = await attempt(() => readInterfaces(look, signal))
  const host = { nodeName, addresses: 'value' in interfaces ? addressesOf(interfaces.value) : [] }
  const { cluster, apiServer } = await readClusterOr(look, access, host, signal)
  const facts: NodeFacts = {
    format: FACTS_FORMAT,
    program: VERSION,
    collectedAt: new Date().toISOString(),
    nodeName,
    netAdmin: hasNetAdmin(),
    configuration: {
      from: options.from,
      error: options.error,
      mode: configuration.mode,
      scheduler: schedulerOf(configuration.ipvs.scheduler),
      strictArp: configuration.ipvs.strictARP,
      excludeCidrs: configuration.ipvs.excludeCIDRs.slice(0, 200),
      fallback: configuration.kubeIPVS.fallback,
      virtualAddresses: configuration.kubeIPVS.virtualAddresses,
    },
    kernel: {
      release,
      distributions,
      hasIpv6: kernelFamilies().families.includes('IPv6'),
    },
    ...options.daemon,
    runningMode: running.mode,
    isOursRunning: running.isOurs,
    ...(await readProcesses()),
    interfaces,
    ipvs: await attempt(() => readIpvs(look, signal)),
    // After it, because it may have loaded the module.
    ipvsSctp: readIpvsSctp(),
    ipvsTable: readIpvsTable(),
    ...(await readRules(look, configuration, signal, firewallOfDaemon(options.daemon))),
    ...(await readNft(signal)),
    paths: configuration.mode === 'ipvs' ? await attempt(() => readPaths(look, signal)) : { value: [] },
    // Questions before may have loaded modules that have settings.
    settings: readSettings(),
    sysctlLines: readSysctlLines(),
    conntrack: readConntrack(),
    unmanagedDevices: readUnmanagedDevices(),
    networkd: readNetworkd(),
    kubeProxyOrigins: readKubeProxyOrigins(),
    keepalivedServers: readKeepalivedServers(),
    ciliumReplacement: readCiliumReplacement(),
    clock: await readClock(),
    cluster,
    apiServer,
    changes: await readChanges(changes, access === undefined ? undefined : cluster),
  }
  return FACTS(facts, '')
}

/** The cluster, or why there is none to see, and of an API server that does not answer where its address leads. */
async function readClusterOr(
  look: Look,
  access: CollectOptions['access'],
  host: ThisHost,
  signal: AbortSignal,
): Promise<Pick<NodeFacts, 'cluster' | 'apiServer'>> {
  if (access === undefined) return { cluster: unseen(NO_SOURCE), apiServer: null }
  let url: string | undefined
  try {
    const provider = await access()
    const asked: AccessProvider = {
      async access() {
        const one = await provider.access()
        url = one.server
        return one
      },
      invalidate: () => provider.invalidate(),
    }
    return { cluster: { value: await readCluster(asked, host, signal) }, apiServer: null }
  } catch (error) {
    const server = await attempt(() => readSilentServer(look, url, error, signal))
    return { cluster: unseen(errorText(error)), apiServer: 'value' in server ? server.value : null }
  }
}

/** undefined: no daemon runs in ipvs mode, or it is older. */
function firewallOfDaemon({ daemon }: CollectOptions['daemon']): FirewallName | undefined {
  const name = 'value' in daemon ? daemon.value?.firewall?.name : undefined
  return name === 'iptables' || name === 'nftables' ? name : undefined
}

/** Addresses that only this host has. */
function addressesOf(links: readonly InterfaceFact[]): readonly string[] {
  const all = links.flatMap(({ addresses }) => addresses.map((one) => one.split('/')[0] ?? ''))
  return all.filter((address) => address !== '' && !isLoopback(address) && !isLinkLocal(address))
}

/** The first commands, and how many there are. A cluster that does not answer is not waited for again. */
async function readChanges(
  changes: CollectOptions['changes'],
  cluster: NodeFacts['cluster'] | undefined,
): Promise<NodeFacts['changes']> {
  if (changes === undefined) return unseen(`${NO_SOURCE}, or --manifests a folder`)
  if (cluster !== undefined && 'unseen' in cluster) return cluster
  return attempt(async () => {
    const commands = await changes()
    return { count: commands.length, commands: commands.slice(0, MAX_COMMANDS) }
  })
}
