/**
 * The recorded objects of ../shared/oracle through parsers, selection and frontends: the virtual servers and bound
 * addresses must be those that kube-proxy left in the kernel, but for the steps listed here, each with its reason.
 * What could break: a step that is neither equal nor listed fails, and so does a listed one that turned out equal.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import type { Frontend, FrontendKey } from '../../src/service/frontends.ts'
import { type InterfaceAddress, localAddressesOf, nodePortAddressesOf } from '../../src/service/node-addresses.ts'
import { type NodeContext, nodeIpsOf } from '../../src/service/node-context.ts'
import type { Node, ObjectChange, ObjectKind } from '../../src/service/objects.ts'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { formatEndpoint } from '../../src/values/address.ts'
import { createIntern } from '../../src/watch/intern.ts'
import { parseMetadata } from '../../src/watch/metadata.ts'
import { parseObject, removal } from '../../src/watch/object-parser.ts'
import { isSelected } from '../../src/watch/selection.ts'

const CASES = fileURLToPath(new URL('../../../shared/oracle/cases', import.meta.url))
const BASE = 'base-no-services'
const NODE_NAME = 'node0'

/** Steps (`case/step`) whose recorded table is not what we want from the same objects, and why. */
const DIFFERENT: Readonly<Record<string, string>> = {
  'adopt-leftovers/2': 'the proxy is stopped',
  'cleanup/2': 'a foreign virtual server is there while the proxy is stopped',
  'cleanup/3': 'cleaned up',
  'cleanup/4': 'cleaned up',
  'cleanup-referenced-chain/3': 'cleaned up',
  'drift-address-added/2': 'foreign loopback and link-local addresses stay on the device',
  'drift-foreign-virtual-server/2': 'fwmark virtual servers stay',
  'drift-ipset-wrong-parameters/1': 'deviation 36: kube-proxy stops at a set with other parameters',
  'drift-weight/2': 'deviation 16: kube-proxy leaves weights changed by hand',
  'dup-external-ip-different/1': 'deviation 22: the older Service wins',
  'dup-external-ip-different/2': 'deviation 22: the older Service wins',
  'dup-external-ip-different/3': 'deviation 22: the older Service wins',
  'dup-external-ip-different/4': 'deviation 22: the older Service wins',
  'dup-external-ip-different/5': 'deviation 22: the older Service wins',
  'exclude-cidrs/1': 'foreign virtual servers inside excludeCIDRs stay',
  'exclude-cidrs-own-service/2': 'deviation 39: excludeCIDRs keep an own virtual server too',
  'lb-vip-loopback/2': 'deviation 23: a loopback VIP goes with its Service',
  'policy-both-local-nodeport/1': 'deviation 5: internal policy Local is kept',
  'policy-internal-local-nodeport/1': 'deviation 5: internal policy Local is kept',
  'sched-bogus/1': 'deviation 37: kube-proxy ends at an unknown scheduler',
}

interface Configuration {
  readonly nodePortAddresses?: readonly string[] | null
  readonly bindAddress?: string
}

interface Case {
  readonly config?: Configuration
  readonly interfaces?: readonly { readonly name: string; readonly addresses: readonly string[] }[]
  readonly steps: readonly { readonly exec?: string; readonly config?: Configuration }[]
}

/** The recorded answers of the API server: one list a kind. */
type Lists = Readonly<Record<'services' | 'endpointSlices' | 'nodes', { readonly items: readonly unknown[] }>>

const LIST_OF: Readonly<Record<ObjectKind, keyof Lists>> = {
  services: 'services',
  endpointslices: 'endpointSlices',
  nodes: 'nodes',
}

/** What is on the recorder's node before a case adds anything. */
const NODE_ADDRESSES: readonly InterfaceAddress[] = [
  { interfaceName: 'lo', address: '127.0.0.1' },
  { interfaceName: 'lo', address: '::1' },
  { interfaceName: 'eth0', address: '10.0.2.15' },
  { interfaceName: 'eth0', address: 'fd00:10:0:2::15' },
  { interfaceName: 'eth0', address: 'fe80::15' },
]

function recorded(name: string, step: number, file: string): string {
  const own = `${CASES}/${name}/recorded/ipvs/${step}/${file}`
  return readFileSync(existsSync(own) ? own : `${CASES}/${BASE}/recorded/ipvs/1/${file}`, 'utf8')
}

/** `ip addr add ADDRESS/LENGTH dev LINK` and `del` of a step's shell commands, for links that are not ours. */
function afterExec(addresses: readonly InterfaceAddress[], exec: string): readonly InterfaceAddress[] {
  let now = addresses
  for (const [, verb, address, link] of exec.matchAll(/ip addr (add|del) ([0-9a-f.:]+)\/\d+ dev ([\w-]+)/g)) {
    if (address === undefined || link === undefined) continue
    now = now.filter((one) => one.address !== address || one.interfaceName !== link)
    if (verb === 'add') now = [...now, { interfaceName: link, address }]
  }
  return now
}

/** Everything that the selectors let through, as if each object had just changed. */
function changesOf(lists: Lists): Map<string, ObjectChange> {
  const intern = createIntern()
  const changes = new Map<string, ObjectChange>()
  for (const kind of ['nodes', 'services', 'endpointslices'] as const) {
    for (const json of lists[LIST_OF[kind]].items) {
      const metadata = parseMetadata(kind, json, intern)
      assert.ok(metadata)
      if (!isSelected(kind, metadata, json, NODE_NAME)) continue
      changes.set(`${kind} ${metadata.key}`, parseObject(kind, json, metadata, intern).change)
    }
  }
  return changes
}

function nodeOf(changes: ReadonlyMap<string, ObjectChange>): Node | undefined {
  for (const change of changes.values()) if (change.kind === 'nodes') return change.value
  return undefined
}

function contextOf(config: Configuration, addresses: readonly InterfaceAddress[], node: Node | undefined): NodeContext {
  const nodeIps = nodeIpsOf(node, config.bindAddress ?? '')
  return {
    nodeName: NODE_NAME,
    zone: node?.zone,
    nodeIps,
    localAddresses: localAddressesOf(addresses),
    nodePortAddresses: nodePortAddressesOf(config.nodePortAddresses ?? [], addresses, nodeIps).addresses,
  }
}

const OPTION = { tcp: '-t', udp: '-u', sctp: '--sctp-service' } as const

/** As `ipvsadm -S -n` prints it, without the scheduler and its flags. */
function serverLines(frontend: Frontend): readonly string[] {
  const { address, port, protocol, affinityTimeoutSeconds, endpoints } = frontend
  const server = `${OPTION[protocol]} ${formatEndpoint(address, port)}`
  const persistence = affinityTimeoutSeconds > 0 ? ` -p ${affinityTimeoutSeconds}` : ''
  const real = endpoints.map((one) => `-a ${server} -r ${formatEndpoint(one.address, one.port)} -m -w 1`)
  return [`-A ${server}${persistence}`, ...real]
}

interface Kernel {
  readonly servers: readonly string[]
  readonly bound: readonly string[]
}

function wanted(frontends: readonly Frontend[]): Kernel {
  const bound = new Set(frontends.filter(({ bind }) => bind).map(({ address }) => address))
  return { servers: frontends.flatMap(serverLines).sort(), bound: [...bound].sort() }
}

function kernelAfter(name: string, step: number): Kernel {
  const lines = (file: string): string[] =>
    recorded(name, step, file)
      .split('\n')
      .filter((line) => line !== '')
  return {
    servers: lines('ipvs.txt')
      .map((line) => line.replace(/ -s \S+/, '').replace(/ -b \S+/, ''))
      .sort(),
    bound: lines('addresses.txt')
      .filter((line) => !line.startsWith('#'))
      .map((line) => line.split('/')[0] ?? '')
      .sort(),
  }
}

/** One case from its first step to its last, through the same object: later steps arrive as changes. */
function run(name: string): void {
  const definition: Case = parse(readFileSync(`${CASES}/${name}/case.yaml`, 'utf8'))
  let config: Configuration = definition.config ?? {}
  let addresses: readonly InterfaceAddress[] = [
    ...NODE_ADDRESSES,
    ...(definition.interfaces ?? []).flatMap((link) =>
      link.addresses.map((text) => ({ interfaceName: link.name, address: text.split('/')[0] ?? '' })),
    ),
  ]
  const desired = new DesiredFrontends(contextOf({}, [], undefined))
  const live = new Map<FrontendKey, Frontend>()
  const listener = {
    frontend: (key: FrontendKey, frontend: Frontend | undefined): void => {
      if (frontend === undefined) live.delete(key)
      else live.set(key, frontend)
    },
    problems: (): void => {},
  }
  let before: ReadonlyMap<string, ObjectChange> = new Map()
  for (const [index, { exec, config: change }] of definition.steps.entries()) {
    config = { ...config, ...change }
    addresses = afterExec(addresses, exec ?? '')
    const changes = changesOf(JSON.parse(recorded(name, index + 1, 'objects.json')))
    for (const [key, gone] of before) if (!changes.has(key)) desired.apply(removal(gone.kind, gone.key))
    for (const one of changes.values()) desired.apply(one)
    before = changes
    desired.setContext(contextOf(config, addresses, nodeOf(changes)))
    assert.equal(desired.flush(listener, Number.POSITIVE_INFINITY), 0)
    const step = `${name}/${index + 1}`
    const [ours, theirs] = [wanted([...live.values()]), kernelAfter(name, index + 1)]
    const reason = DIFFERENT[step]
    if (reason === undefined) assert.deepEqual(ours, theirs, step)
    else assert.notDeepEqual(ours, theirs, `${step} is equal, but listed: ${reason}`)
  }
}

if (existsSync(CASES)) {
  for (const name of readdirSync(CASES)) {
    if (existsSync(`${CASES}/${name}/recorded/ipvs`)) test(`DesiredFrontends oracle case ${name}`, () => run(name))
  }
} else {
  test('DesiredFrontends oracle cases', { skip: '../shared/oracle is not there' }, () => {})
}
