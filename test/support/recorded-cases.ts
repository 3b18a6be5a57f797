/**
 * The recorded cases, step by step: the objects through the parsers and DesiredFrontends, and the
 * kernel state that kube-proxy left at that step. A later step arrives as changes to the objects of
 * earlier steps, as in the daemon.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { type AddressFrontend, type Frontend, type FrontendKey, hasAddress } from '../../src/service/frontends.ts'
import {
  healthCheckAddressesOf,
  type InterfaceAddress,
  localAddressesOf,
  localHealthChecksOf,
  nodePortAddressesOf,
} from '../../src/service/node-addresses.ts'
import { type NodeContext, nodeIpsOf } from '../../src/service/node-context.ts'
import type { Node, ObjectChange, ObjectKind } from '../../src/service/objects.ts'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { createIntern } from '../../src/watch/objects/findings.ts'
import { parseMetadata, parseObject, removal } from '../../src/watch/objects/object-parser.ts'
import { isSelected } from '../../src/watch/objects/selection.ts'
import { recordingPath } from './recordings.ts'

const CASES = recordingPath('cases')
const BASE = 'base-no-services'
const NODE_NAME = 'node0'

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

/** The recorder's node before a case adds anything. */
const NODE_ADDRESSES: readonly InterfaceAddress[] = [
  { interfaceName: 'lo', address: '127.0.0.1' },
  { interfaceName: 'lo', address: '::1' },
  { interfaceName: 'eth0', address: '10.0.2.15' },
  { interfaceName: 'eth0', address: 'fd00:10:0:2::15' },
  { interfaceName: 'eth0', address: 'fe80::15' },
]

/** A recorded file of a step; the recording omits one that is as after a plain start. */
export function recorded(name: string, step: number, file: string): string {
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

/** Every object that the selectors match, as if it had just changed. */
export function changesOf(lists: Lists): Map<string, ObjectChange> {
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

/** The Node among the changes. */
export function nodeOf(changes: ReadonlyMap<string, ObjectChange>): Node | undefined {
  for (const change of changes.values()) if (change.kind === 'nodes') return change.value
  return undefined
}

function contextOf(config: Configuration, addresses: readonly InterfaceAddress[], node: Node | undefined): NodeContext {
  const nodeIps = nodeIpsOf(node, config.bindAddress ?? '')
  const configured = config.nodePortAddresses ?? []
  const nodePorts = nodePortAddressesOf(configured, addresses, nodeIps).addresses
  return {
    nodeName: NODE_NAME,
    zone: node?.zone,
    nodeIps,
    localAddresses: localAddressesOf(addresses),
    nodePortAddresses: nodePorts,
    localHealthChecks: localHealthChecksOf(configured, addresses, nodeIps),
  }
}

/** One step of a case, after it. */
export interface RecordedStep {
  /** `case/step`, steps from 1. */
  readonly name: string
  readonly context: NodeContext
  /** Where health check ports listen. */
  readonly listenAddresses: ReturnType<typeof healthCheckAddressesOf>
  /** The winning frontends, as they are now. */
  readonly frontends: ReadonlyMap<FrontendKey, AddressFrontend>
  /** Lines of a recorded file, without empty ones. */
  readonly lines: (file: string) => string[]
}

/** Names of the cases that were recorded in ipvs mode. */
export function recordedCases(): readonly string[] {
  return readdirSync(CASES).filter((name) => existsSync(`${CASES}/${name}/recorded/ipvs`))
}

/** One case from its first step to its last, through the same object: later steps arrive as changes. */
export function walkCase(name: string, visit: (step: RecordedStep) => void): void {
  const definition: Case = parse(readFileSync(`${CASES}/${name}/case.yaml`, 'utf8'))
  let config: Configuration = definition.config ?? {}
  let addresses: readonly InterfaceAddress[] = [
    ...NODE_ADDRESSES,
    ...(definition.interfaces ?? []).flatMap((link) =>
      link.addresses.map((text) => ({ interfaceName: link.name, address: text.split('/')[0] ?? '' })),
    ),
  ]
  const desired = new DesiredFrontends(contextOf({}, [], undefined))
  const live = new Map<FrontendKey, AddressFrontend>()
  const listener = {
    frontend: (key: FrontendKey, frontend: Frontend | undefined): void => {
      if (frontend === undefined) live.delete(key)
      else {
        assert.ok(hasAddress(frontend))
        live.set(key, frontend)
      }
    },
    problems: (): void => {},
  }
  let before: ReadonlyMap<string, ObjectChange> = new Map()
  for (const [index, { exec, config: change }] of definition.steps.entries()) {
    const step = index + 1
    config = { ...config, ...change }
    addresses = afterExec(addresses, exec ?? '')
    const changes = changesOf(JSON.parse(recorded(name, step, 'objects.json')))
    for (const [key, gone] of before) if (!changes.has(key)) desired.apply(removal(gone.kind, gone.key))
    for (const one of changes.values()) desired.apply(one)
    before = changes
    const context = contextOf(config, addresses, nodeOf(changes))
    desired.setContext(context)
    desired.flushAll(listener)
    assert.equal(desired.isDirty, false)
    const lines = (file: string): string[] =>
      recorded(name, step, file)
        .split('\n')
        .filter((line) => line !== '')
    const listenAddresses = healthCheckAddressesOf(config.nodePortAddresses ?? [], addresses, context.nodeIps)
    visit({ name: `${name}/${step}`, context, listenAddresses, frontends: live, lines })
  }
}
