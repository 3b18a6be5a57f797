/**
 * The states of the recorded proxy, reproduced in ours by what happened before each group of
 * requests. The recorded proxy ran with a syncPeriod of 5 s where its group names a timeout of 10
 * s.
 */
import { ProxyHealth } from '../../src/daemon/proxy-health.ts'
import type { TableHealth } from '../../src/modes/table-health.ts'
import type { Node } from '../../src/service/objects.ts'
import type { PassReport } from '../../src/sync/pass.ts'
import { rulesOf, TABLES } from '../../src/sync/part.ts'
import { IP_FAMILIES, type IpFamily } from '../../src/values/protocol.ts'
import { node } from '../support/objects.ts'

const DONE: PassReport = { applied: 0, failures: [], repairs: [], unreadable: [] }
const SYNC_PERIOD_MS = 5000

/** The events of a proxy, in their order. */
class Story {
  readonly health: ProxyHealth
  #nowMs = 0
  readonly #failing = new Set<IpFamily>()

  constructor() {
    const now = (): number => this.#nowMs
    this.health = new ProxyHealth({ nodeName: 'node0', families: IP_FAMILIES, syncPeriodMs: () => SYNC_PERIOD_MS, now })
    this.health.follow({ families: IP_FAMILIES, tables: () => this.#tables(), parts: [] })
  }

  *#tables(): Generator<TableHealth> {
    for (const family of IP_FAMILIES)
      yield { what: `chains ${family}`, families: [family], wrong: this.#failing.has(family) }
  }

  node(change: Partial<Node> | undefined): this {
    const value = change && node({ name: 'node0', ...change })
    this.health.apply([{ kind: 'nodes', key: 'node0', value }])
    return this
  }

  pass(): this {
    this.health.passBegins()
    this.health.passed(rulesOf('IPv4'), DONE)
    this.health.passed(TABLES, DONE)
    return this
  }

  failing(...families: readonly IpFamily[]): this {
    this.#failing.clear()
    for (const family of families) this.#failing.add(family)
    return this.pass()
  }

  after(seconds: number): this {
    this.#nowMs += seconds * 1000
    return this
  }
}

const healthy = (): Story => new Story().node({}).pass()

const STORIES: Readonly<Record<string, () => Story>> = {
  healthy,
  'node tainted ToBeDeletedByClusterAutoscaler': () =>
    healthy().node({ taintKeys: ['ToBeDeletedByClusterAutoscaler'] }),
  'node tainted, no value, PreferNoSchedule': () =>
    healthy().node({ taintKeys: ['other', 'ToBeDeletedByClusterAutoscaler'] }),
  'node tainted DeletionCandidateOfClusterAutoscaler': () =>
    healthy().node({ taintKeys: ['DeletionCandidateOfClusterAutoscaler'] }),
  'node has a deletionTimestamp': () => healthy().node({ deleting: true }),
  // Recorded after the case above: the last Node stays in force.
  'node object gone': () => healthy().node({ deleting: true }).node(undefined),
  'node created again': () => healthy().node({ deleting: true }).node(undefined).node({}),
  '5 s after IPv6 syncs began to fail (timeout 10 s)': () => healthy().failing('IPv6').after(5),
  '14 s after IPv6 syncs began to fail': () => healthy().failing('IPv6').after(9).pass().after(5),
  'both families fail': () => healthy().failing('IPv6').after(14).failing('IPv4', 'IPv6').after(14).pass(),
  'recovered at the next periodic sync': () => healthy().failing('IPv4', 'IPv6').after(28).failing(),
  'before the first sync: Services and slices cannot be listed': () => new Story().node({}).after(2),
  'the same 13 s later (timeout 10 s)': () => new Story().node({}).after(15),
  'API server gone for 20 s': () => healthy().after(20),
}

/** The health in a group; healthy in groups of other files. Undefined: an unknown group. */
export function healthIn(file: string, group: string): ProxyHealth | undefined {
  return (file === 'health' ? STORIES[group] : healthy)?.().health
}
