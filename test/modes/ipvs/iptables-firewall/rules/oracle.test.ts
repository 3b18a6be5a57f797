/**
 * The recorded cases through parsers, frontends, rule builders, table and reconciler, into tables
 * in memory, after what the case does by hand: their text must be what kube-proxy left, except in
 * the steps listed here. A step that is neither equal nor listed fails the test, and so does a
 * listed step that is equal.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parse } from 'yaml'
import { IPVS_LAYOUT } from '../../../../../src/modes/leftovers/layouts.ts'
import { IptablesTable } from '../../../../../src/iptables/table.ts'
import type { IptablesItem, IptablesOperation } from '../../../../../src/iptables/types.ts'
import { type RuleChange, WantedRules } from '../../../../../src/modes/ipvs/iptables-firewall/rules/wanted-rules.ts'
import type { RuleSettings } from '../../../../../src/iptables/local-traffic.ts'
import { CATALOGUE } from '../../../../../src/ipset/catalogue.ts'
import { type Frontend, type FrontendKey, hasAddress } from '../../../../../src/service/frontends.ts'
import { localAddressesOf, nodePortAddressesOf } from '../../../../../src/service/node-addresses.ts'
import { type NodeContext, nodeIpsOf } from '../../../../../src/service/node-context.ts'
import type { Node } from '../../../../../src/service/objects.ts'
import { DesiredFrontends } from '../../../../../src/sync/desired-frontends.ts'
import type { PassReport } from '../../../../../src/sync/pass.ts'
import { reconciled } from '../../../../../src/sync/reconciled.ts'
import { Reconciler } from '../../../../../src/sync/reconciler.ts'
import { TableSync } from '../../../../../src/sync/table-sync.ts'
import { IP_FAMILIES, type IpFamily } from '../../../../../src/values/protocol.ts'
import { changesOf, nodeOf, recorded } from '../../../../support/recorded-cases.ts'
import { recordingPath } from '../../../../support/recordings.ts'
import { MemoryIptables } from '../../../../iptables/memory-iptables.ts'

const CASES = recordingPath('cases')
const NODE_NAME = 'node0'
const FILE: Readonly<Record<IpFamily, string>> = { IPv4: 'iptables.txt', IPv6: 'ip6tables.txt' }

/** Steps (`case/step family`) whose recorded rules are not what we write for the same objects, and why. */
const DIFFERENT: Readonly<Record<string, string>> = {
  'drift-ipset-wrong-parameters/1 IPv4': 'deviation 36: kube-proxy stops at a set with other parameters',
  'gate-ipvs-off/1 IPv4': 'the feature gate refuses ipvs mode',
  'gate-ipvs-off/1 IPv6': 'the feature gate refuses ipvs mode',
  'mode-switch/3 IPv4': 'deviation 28: kube-proxy leaves the rules of the other mode',
  'mode-switch/3 IPv6': 'deviation 28: kube-proxy leaves the rules of the other mode',
  'sched-bogus/1 IPv4': 'deviation 37: kube-proxy ends at an unknown scheduler',
  'sched-bogus/1 IPv6': 'deviation 37: kube-proxy ends at an unknown scheduler',
}

interface Configuration extends Partial<RuleSettings> {
  readonly nodePortAddresses?: readonly string[] | null
  readonly bindAddress?: string
  readonly mode?: string
}

interface Case {
  readonly config?: Configuration
  readonly steps: readonly {
    readonly stop?: boolean
    readonly cleanup?: boolean
    readonly exec?: string
    readonly start?: boolean
    readonly config?: Configuration
  }[]
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

/** Chains sorted, the rules of KUBE-IPVS-OUT-FILTER too, as the recorder did. */
function normalised(text: string): readonly string[] {
  const lines = text.split('\n')
  const first = lines.findIndex((line) => line.startsWith('-A KUBE-IPVS-OUT-FILTER '))
  const count = lines.filter((line) => line.startsWith('-A KUBE-IPVS-OUT-FILTER ')).length
  return first < 0 ? lines : lines.toSpliced(first, count, ...lines.slice(first, first + count).sort())
}

/** The iptables commands of a step's shell commands, done to the tables in memory. */
function runShell(memory: MemoryIptables, family: IpFamily, exec: string): void {
  for (const [, program, table, command] of exec.matchAll(/\b(ip6?tables) (?:-t (\w+) )?(-[^;&\n]+)/g)) {
    if (program === (family === 'IPv4' ? 'iptables' : 'ip6tables')) memory.run(table ?? 'filter', command?.trim() ?? '')
  }
}

interface Side {
  readonly memory: MemoryIptables
  sync: TableSync<IptablesItem, IptablesOperation>
}

async function pass(sync: TableSync<IptablesItem, IptablesOperation>): Promise<PassReport> {
  const reconciler = new Reconciler([reconciled(sync)])
  return reconciler.pass({ signal: new AbortController().signal, now: () => 0, mayRemove: true })
}

/** The items wanted for recorded objects; sets count as filled when the recording has entries in them. */
function wantedFor(name: string, step: number, config: Configuration): readonly RuleChange[] {
  const changes = changesOf(JSON.parse(recorded(name, step, 'objects.json')))
  const node = nodeOf(changes)
  const context = contextOf(config, node)
  const desired = new DesiredFrontends(context)
  for (const one of changes.values()) desired.apply(one)
  const wanted = new WantedRules(settingsOf(config), IP_FAMILIES, true)
  wanted.podCidrs(node?.podCidrs ?? [])
  const follow = (key: FrontendKey, frontend: Frontend | undefined): void => {
    assert.ok(frontend === undefined || hasAddress(frontend))
    wanted.frontend(key, frontend)
  }
  desired.flushAll({ frontend: follow, problems: () => {} })
  const sets = recorded(name, step, 'ipset.txt')
  for (const { name: set } of CATALOGUE) wanted.setSize(set, sets.includes(`add ${set} `) ? 1 : 0)
  return wanted.changes()
}

/** One case from its first step to its last, into the same tables: what is done by hand is found at the next pass. */
async function run(name: string): Promise<void> {
  const definition: Case = parse(readFileSync(`${CASES}/${name}/case.yaml`, 'utf8'))
  let config: Configuration = definition.config ?? {}
  const sideOf = (family: IpFamily): Side => {
    const memory = new MemoryIptables()
    return { memory, sync: new TableSync(new IptablesTable(family, memory, IPVS_LAYOUT)) }
  }
  const sides = { IPv4: sideOf('IPv4'), IPv6: sideOf('IPv6') }
  let running = true
  for (const [index, step] of definition.steps.entries()) {
    config = { ...config, ...step.config }
    running = step.start === true || (running && step.stop !== true)
    const items = running ? wantedFor(name, index + 1, config) : []
    for (const family of IP_FAMILIES) {
      const side = sides[family]
      const { memory } = side
      runShell(memory, family, step.exec ?? '')
      if (step.cleanup === true || step.start === true)
        side.sync = new TableSync(new IptablesTable(family, memory, IPVS_LAYOUT))
      side.sync.doubt('all')
      for (const change of items) if (change.family === family) side.sync.want(change.key, change.item)
      const starts = memory.inputs.length
      if (running || step.cleanup === true) await pass(side.sync)
      assert.ok(memory.inputs.length - starts <= 1, 'one restore a pass')
      if (config.mode === 'iptables') continue
      const at = `${name}/${index + 1} ${family}`
      const [ours, theirs] = [normalised(memory.text()), normalised(recorded(name, index + 1, FILE[family]))]
      const reason = DIFFERENT[at]
      if (reason === undefined) assert.deepEqual(ours, theirs, at)
      else assert.notDeepEqual(ours, theirs, `${at} is equal, but listed: ${reason}`)
    }
  }
}

for (const name of readdirSync(CASES))
  if (existsSync(`${CASES}/${name}/recorded/ipvs`)) test(`IptablesTable oracle case ${name}`, () => run(name))
