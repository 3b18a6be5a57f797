/**
 * The recorded cases of ../shared/oracle through parsers, frontends, rule builders, table and reconciler, into tables in
 * memory: what is in our chains, and our jumps, must be what kube-proxy left, but for the steps listed here.
 * What could break: a step that is neither equal nor listed fails, and so does a listed one that turned out equal.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parse } from 'yaml'
import { CHAINS, isOurChain, TABLES } from '../../src/iptables/chain-names.ts'
import { parseSave } from '../../src/iptables/save-text.ts'
import { IptablesTable } from '../../src/iptables/table.ts'
import type { IptablesItem, IptablesOperation } from '../../src/iptables/types.ts'
import { type RuleSettings, WantedRules } from '../../src/iptables/wanted-rules.ts'
import { CATALOGUE } from '../../src/ipset/catalogue.ts'
import type { Frontend, FrontendKey } from '../../src/service/frontends.ts'
import { localAddressesOf, nodePortAddressesOf } from '../../src/service/node-addresses.ts'
import { type NodeContext, nodeIpsOf } from '../../src/service/node-context.ts'
import type { Node, ObjectChange } from '../../src/service/objects.ts'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { Reconciler, reconciled } from '../../src/sync/reconciler.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { IP_FAMILIES, type IpFamily } from '../../src/values/protocol.ts'
import { createIntern } from '../../src/watch/intern.ts'
import { parseMetadata } from '../../src/watch/metadata.ts'
import { parseObject, removal } from '../../src/watch/object-parser.ts'
import { isSelected } from '../../src/watch/selection.ts'
import { sharedPath, skipWithoutShared } from '../support/shared.ts'
import { MemoryIptables } from './memory-iptables.ts'

const CASES = sharedPath('oracle/cases')
const BASE = 'base-no-services'
const NODE_NAME = 'node0'
const FILE: Readonly<Record<IpFamily, string>> = { IPv4: 'iptables.txt', IPv6: 'ip6tables.txt' }

/** Steps (`case/step family`) whose recorded rules are not what we write for the same objects, and why. */
const DIFFERENT: Readonly<Record<string, string>> = {}

interface Configuration extends Partial<RuleSettings> {
  readonly nodePortAddresses?: readonly string[] | null
  readonly bindAddress?: string
}

interface Case {
  readonly config?: Configuration
  readonly steps: readonly { readonly exec?: string; readonly config?: Configuration }[]
}

type Lists = Readonly<Record<'services' | 'endpointSlices' | 'nodes', { readonly items: readonly unknown[] }>>
const LIST_OF = { services: 'services', endpointslices: 'endpointSlices', nodes: 'nodes' } as const

function recorded(name: string, step: number, file: string): string {
  const own = `${CASES}/${name}/recorded/ipvs/${step}/${file}`
  return readFileSync(existsSync(own) ? own : `${CASES}/${BASE}/recorded/ipvs/1/${file}`, 'utf8')
}

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

const ADDRESSES = [
  { interfaceName: 'eth0', address: '10.0.2.15' },
  { interfaceName: 'eth0', address: 'fd00:10:0:2::15' },
]

function contextOf(config: Configuration, node: Node | undefined): NodeContext {
  const nodeIps = nodeIpsOf(node, config.bindAddress ?? '')
  return {
    nodeName: NODE_NAME,
    zone: node?.zone,
    nodeIps,
    localAddresses: localAddressesOf(ADDRESSES),
    nodePortAddresses: nodePortAddressesOf(config.nodePortAddresses ?? [], ADDRESSES, nodeIps).addresses,
  }
}

function settingsOf(config: Configuration): RuleSettings {
  return {
    detectLocalMode: config.detectLocalMode ?? 'ClusterCIDR',
    clusterCIDR: config.clusterCIDR ?? (config.clusterCIDR === null ? '' : '10.244.0.0/16,fd00:10:244::/56'),
    detectLocal: { bridgeInterface: '', interfaceNamePrefix: '', ...config.detectLocal },
    iptables: { masqueradeAll: false, masqueradeBit: 14, ...config.iptables },
  }
}

/** Our chains and what stands in built-in chains and leads into them; OUT-FILTER sorted, as the recorder did. */
function oursIn(text: string): Readonly<Record<string, readonly string[]>> {
  const saved = parseSave(text)
  const ours: Record<string, readonly string[]> = {}
  for (const table of TABLES) {
    for (const [chain, rules] of saved.get(table) ?? []) {
      if (chain === 'KUBE-IPVS-OUT-FILTER') ours[`${table} ${chain}`] = rules.toSorted()
      else if (isOurChain(table, chain)) ours[`${table} ${chain}`] = rules
      else
        ours[`${table} ${chain}`] = rules.filter((rule) =>
          CHAINS[table].some((our) => rule.startsWith('-m comment') && rule.endsWith(` -j ${our}`)),
        )
    }
  }
  return Object.fromEntries(Object.entries(ours).filter(([key, rules]) => key.includes('KUBE-') || rules.length > 0))
}

interface Side {
  readonly memory: MemoryIptables
  readonly sync: TableSync<IptablesItem, IptablesOperation>
  readonly reconciler: Reconciler
}

function sideOf(family: IpFamily): Side {
  const memory = new MemoryIptables()
  const sync = new TableSync(new IptablesTable(family, memory))
  return { memory, sync, reconciler: new Reconciler([reconciled(sync)]) }
}

/** Objects go through one object for all steps; sets count as filled when the recording has entries in them. */
async function run(name: string): Promise<void> {
  const definition: Case = parse(readFileSync(`${CASES}/${name}/case.yaml`, 'utf8'))
  let config: Configuration = definition.config ?? {}
  const desired = new DesiredFrontends(contextOf({}, undefined))
  const sides = { IPv4: sideOf('IPv4'), IPv6: sideOf('IPv6') }
  const live = new Map<FrontendKey, Frontend>()
  const listener = {
    frontend: (key: FrontendKey, frontend: Frontend | undefined): void => {
      if (frontend === undefined) live.delete(key)
      else live.set(key, frontend)
    },
    problems: (): void => {},
  }
  let before: ReadonlyMap<string, ObjectChange> = new Map()
  for (const [index, { config: change }] of definition.steps.entries()) {
    config = { ...config, ...change }
    const changes = changesOf(JSON.parse(recorded(name, index + 1, 'objects.json')))
    for (const [key, gone] of before) if (!changes.has(key)) desired.apply(removal(gone.kind, gone.key))
    for (const one of changes.values()) desired.apply(one)
    before = changes
    const node = nodeOf(changes)
    const context = contextOf(config, node)
    desired.setContext(context)
    assert.equal(desired.flush(listener, Number.POSITIVE_INFINITY), 0)
    const wanted = new WantedRules(settingsOf(config), IP_FAMILIES, true)
    wanted.node(context.nodeIps, node?.podCidrs ?? [])
    for (const [key, frontend] of live) wanted.frontend(key, frontend)
    const sets = recorded(name, index + 1, 'ipset.txt')
    for (const { name: set } of CATALOGUE) wanted.setSize(set, sets.includes(`add ${set} `) ? 1 : 0)
    for (const { family, key, item } of wanted.changes()) sides[family].sync.want(key, item)
    for (const family of IP_FAMILIES) {
      const { memory, reconciler } = sides[family]
      const starts = memory.inputs.length
      const report = await reconciler.pass({ signal: new AbortController().signal, now: () => index, mayRemove: true })
      assert.deepEqual(report.failures, [])
      assert.ok(memory.inputs.length - starts <= 1)
      const step = `${name}/${index + 1} ${family}`
      const [ours, theirs] = [oursIn(memory.text()), oursIn(recorded(name, index + 1, FILE[family]))]
      const reason = DIFFERENT[step]
      if (reason === undefined) assert.deepEqual(ours, theirs, step)
      else assert.notDeepEqual(ours, theirs, `${step} is equal, but listed: ${reason}`)
    }
  }
}

const skip = skipWithoutShared('oracle/cases')
if (skip === false) {
  for (const name of readdirSync(CASES))
    if (existsSync(`${CASES}/${name}/recorded/ipvs`)) test(`renderIpvsRules oracle case ${name}`, () => run(name))
} else test('renderIpvsRules oracle cases', { skip }, () => {})
