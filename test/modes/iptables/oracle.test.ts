/**
 * Runs the recorded cases of iptables mode through parsers, frontends and rendering. Every chain
 * with a name of kube-proxy must have the recorded rules, except in the steps listed here.
 * `npm run test:oracle -- --mode iptables` tests the same with a kernel. A step that is neither
 * equal nor listed fails the test, and so does a listed step that is equal.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parse } from 'yaml'
import { localTrafficOf } from '../../../src/iptables/local-traffic.ts'
import { parseSave } from '../../../src/iptables/save-text.ts'
import { WantedServiceChains } from '../../../src/modes/iptables/chains/wanted-service-chains.ts'
import { nodePortRangesOf } from '../../../src/service/node-addresses.ts'
import { nodeIpsOf } from '../../../src/service/node-context.ts'
import type { ObjectChange } from '../../../src/service/objects.ts'
import { DesiredFrontends } from '../../../src/sync/desired-frontends.ts'
import { IP_FAMILIES, type IpFamily } from '../../../src/values/protocol.ts'
import { removal } from '../../../src/watch/objects/object-parser.ts'
import { changesOf, nodeOf } from '../../support/recorded-cases.ts'
import { recordingPath } from '../../support/recordings.ts'

const CASES = recordingPath('cases')
const NODE_NAME = 'node0'
const FILE: Readonly<Record<IpFamily, string>> = { IPv4: 'iptables.txt', IPv6: 'ip6tables.txt' }

/** Steps in which we write other chains for the same objects, and why. */
const DIFFERENT: Readonly<Record<string, string>> = {
  'adopt-leftovers/2 IPv4': 'kube-proxy is not running',
  'cleanup/2 IPv4': 'kube-proxy is not running',
  'cleanup/3 IPv4': 'nothing is wanted after a cleanup',
  'cleanup/3 IPv6': 'nothing is wanted after a cleanup',
  'cleanup/4 IPv4': 'nothing is wanted after a cleanup',
  'cleanup/4 IPv6': 'nothing is wanted after a cleanup',
  'drift-chain-flushed-iptables/2 IPv4': 'deviation 30: kube-proxy does not notice',
  'drift-foreign-rules/2 IPv4': 'deviation 30: kube-proxy does not notice',
}

interface Configuration {
  readonly nodePortAddresses?: readonly string[] | null
  readonly bindAddress?: string
  readonly clusterCIDR?: string | null
  readonly detectLocalMode?: 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix'
  readonly detectLocal?: Readonly<Record<string, string>>
  readonly conntrack?: { readonly tcpBeLiberal?: boolean }
  readonly iptables?: {
    readonly masqueradeAll?: boolean
    readonly masqueradeBit?: number
    readonly localhostNodePorts?: boolean
  }
}

interface Case {
  readonly config?: Configuration
  readonly interfaces?: readonly { readonly name: string; readonly addresses: readonly string[] }[]
  readonly steps: readonly { readonly config?: Configuration }[]
}

/** A recorded file of a step: of this mode, or else of the base case. Objects may be those of ipvs mode. */
function recorded(name: string, step: number, file: string): string {
  const folders = [`${name}/recorded/iptables/${step}`, `base-no-services/recorded/iptables/1`]
  if (file === 'objects.json') folders.splice(1, 0, `${name}/recorded/ipvs/${step}`)
  const path = folders.map((folder) => `${CASES}/${folder}/${file}`).find(existsSync)
  assert.ok(path)
  return readFileSync(path, 'utf8')
}

/** Chains of a proxy by `table name`, with their rules, without those of kubelet. */
function chainsIn(text: string): Record<string, readonly string[]> {
  const chains: Record<string, readonly string[]> = {}
  for (const [table, found] of parseSave(text))
    for (const [chain, rules] of found) if (chain.startsWith('KUBE-')) chains[`${table} ${chain}`] = rules
  return chains
}

/** The desired chains of one family under this configuration. */
function wantedOf(family: IpFamily, config: Configuration): WantedServiceChains {
  const { masqueradeAll = false, masqueradeBit = 14 } = config.iptables ?? {}
  return new WantedServiceChains({
    family,
    masqueradeAll,
    masqueradeBit,
    randomFully: true,
    localhostNodePorts: true,
    dropsInvalid: config.conntrack?.tcpBeLiberal !== true,
    countsInvalid: true,
    countsLoopback: true,
    hasRecent: true,
    hasStatistic: true,
    localTraffic: undefined,
    nodePortPlaces: 'all',
  })
}

function run(name: string): void {
  const definition: Case = parse(readFileSync(`${CASES}/${name}/case.yaml`, 'utf8'))
  let config: Configuration = definition.config ?? {}
  const addresses = [
    { interfaceName: 'lo', address: '127.0.0.1' },
    { interfaceName: 'lo', address: '::1' },
    { interfaceName: 'eth0', address: '10.0.2.15' },
    { interfaceName: 'eth0', address: 'fd00:10:0:2::15' },
    ...(definition.interfaces ?? []).flatMap((link) =>
      link.addresses.map((text) => ({ interfaceName: link.name, address: text.split('/')[0] ?? '' })),
    ),
  ]
  const context = {
    nodeName: NODE_NAME,
    zone: undefined,
    nodeIps: {},
    localAddresses: new Set<string>(),
    nodePortAddresses: { IPv4: [], IPv6: [] },
  }
  const desired = new DesiredFrontends(context, { nodePorts: 'every-address' })
  const sides = IP_FAMILIES.map((family) => ({
    family,
    wanted: wantedOf(family, config),
    chains: {} as Record<string, readonly string[]>,
  }))
  let before: ReadonlyMap<string, ObjectChange> = new Map()
  for (const [index, step] of definition.steps.entries()) {
    config = { ...config, ...step.config }
    const changes = changesOf(JSON.parse(recorded(name, index + 1, 'objects.json')))
    for (const [key, gone] of before) if (!changes.has(key)) desired.apply(removal(gone.kind, gone.key))
    for (const one of changes.values()) desired.apply(one)
    before = changes
    const node = nodeOf(changes)
    const nodeIps = nodeIpsOf(node, config.bindAddress ?? '')
    desired.setContext({ ...context, nodeIps, zone: node?.zone })
    const nodePorts = nodePortRangesOf(config.nodePortAddresses ?? [], addresses, nodeIps)
    const localTraffic = {
      detectLocalMode: config.detectLocalMode ?? 'ClusterCIDR',
      clusterCIDR: config.clusterCIDR ?? (config.clusterCIDR === null ? '' : '10.244.0.0/16,fd00:10:244::/56'),
      detectLocal: { bridgeInterface: '', interfaceNamePrefix: '', ...config.detectLocal },
    } as const
    for (const { family, wanted } of sides)
      wanted.configure({
        localTraffic: localTrafficOf(localTraffic, node?.podCidrs ?? [], family),
        nodePortPlaces: nodePorts.places[family],
        localhostNodePorts: (config.iptables?.localhostNodePorts ?? true) && nodePorts.includesLoopback,
      })
    desired.flushAll({
      frontend: (key, frontend) => {
        const family = key.startsWith('[') ? 'IPv6' : 'IPv4'
        sides.find((side) => side.family === family)?.wanted.frontend(key, frontend)
      },
      problems: () => {},
    })
    for (const { family, wanted, chains } of sides) {
      for (const { key, item } of wanted.changes()) {
        if (item === undefined) delete chains[key]
        else if (item.kind === 'chain') chains[key] = item.rules
      }
      const at = `${name}/${index + 1} ${family}`
      const theirs = chainsIn(recorded(name, index + 1, FILE[family]))
      const reason = DIFFERENT[at]
      if (reason === undefined) assert.deepEqual(chains, theirs, at)
      else assert.notDeepEqual(chains, theirs, `${at} is equal, but listed: ${reason}`)
    }
  }
}

for (const name of readdirSync(CASES))
  if (existsSync(`${CASES}/${name}/recorded/iptables`)) test(`iptables mode, case ${name}`, () => run(name))
