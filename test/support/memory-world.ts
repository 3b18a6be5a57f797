/**
 * ipvs mode on tables in memory, with one journal of what was done to any of them, so that the
 * order across tables can be seen.
 */
import { SET_ENTRIES, SETS } from '../../src/ipset/diff.ts'
import { IptablesTable } from '../../src/iptables/table.ts'
import { ChosenSchedulers } from '../../src/modes/ipvs/chosen-schedulers.ts'
import { IpvsDataplane } from '../../src/modes/ipvs/dataplane.ts'
import { IptablesFirewall } from '../../src/modes/ipvs/iptables-firewall/firewall.ts'
import { IPVS_KINDS } from '../../src/modes/ipvs/tables.ts'
import { isAnyPending } from '../../src/modes/mode.ts'
import { IPVS_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import type { IptablesChoice } from '../../src/node/iptables-choice.ts'
import type { TableKind } from '../../src/sync/table.ts'
import type { Problem } from '../../src/values/errors.ts'
import { type LogFields, silentLog } from '../../src/values/log.ts'
import type { IpFamily } from '../../src/values/protocol.ts'
import { MemoryIptables } from '../iptables/memory-iptables.ts'
import { MemoryTable } from './memory-table.ts'

const CHOICE: IptablesChoice = {
  mode: 'nft',
  reason: 'a test',
  unusable: {},
  suffix: '',
  programs: {},
  version: undefined,
  randomFully: true,
  waits: true,
}

type InMemory<Kinds> = {
  readonly [Name in keyof Kinds]: Kinds[Name] extends TableKind<infer Item, infer Op> ? MemoryTable<Item, Op> : never
}

export class MemoryWorld {
  readonly iptables: Readonly<Record<IpFamily, MemoryIptables>> = {
    IPv4: new MemoryIptables(),
    IPv6: new MemoryIptables(),
  }
  readonly families: readonly IpFamily[]
  readonly sets
  readonly entries
  readonly tables: InMemory<typeof IPVS_KINDS>
  readonly virtualServers
  readonly device
  readonly addresses
  readonly routes
  /** Every command that was run, restores as `iptables-restore IPv4`. */
  readonly journal: string[] = []
  /** Whether a command fails. */
  fails: (command: string) => boolean = () => false
  /** The error of a failed command. */
  failure = new Error('injected failure')
  /** Restores of a family hang until this resolves. */
  readonly hanging: { [family in IpFamily]?: Promise<void> } = {}
  /** Connections of real servers, by their keys. */
  readonly connections = new Map<string, { active: number; inactive: number }>()
  /** Those of one virtual server, as the kernel counts them. */
  connectionsOf: () => ReadonlyMap<string, { active: number; inactive: number }> = () => this.connections
  nowMs = 0
  /** Schedulers that the kernel lacks, and those that it was asked for. */
  readonly missingSchedulers = new Set<string>()
  readonly askedSchedulers: string[] = []
  /** The problems with missing schedulers, by Service. */
  readonly schedulerProblems = new Map<string, readonly Problem[]>()
  readonly problems: string[] = []
  /** What the firewall logged. */
  readonly infos: string[] = []
  /** The kernel announces that another program changed rules; works once a process watches. */
  announceRules: (family: IpFamily) => void = () => undefined

  constructor(families: readonly IpFamily[] = ['IPv4']) {
    this.families = families
    this.sets = this.#table(SETS)
    this.entries = this.#table(SET_ENTRIES)
    const kinds = Object.entries(IPVS_KINDS) as unknown as [string, TableKind<unknown, unknown>][] // each with its own items
    this.tables = Object.fromEntries(kinds.map(([name, kind]) => [name, this.#table(kind)])) as unknown as InMemory<
      typeof IPVS_KINDS
    > // one for each kind
    this.virtualServers = this.tables.virtualServers
    this.device = this.tables.device
    this.addresses = this.tables.addresses
    this.routes = this.tables.routes
  }

  #table<Item, Op>(kind: TableKind<Item, Op>): MemoryTable<Item, Op> {
    return new MemoryTable(kind, {
      applied: this.journal,
      refuse: (op) => (this.fails(kind.text(op)) ? this.failure : undefined),
    })
  }

  /** A new process on this kernel. */
  dataplane(): IpvsDataplane {
    const now = (): number => this.nowMs
    const report = (message: string, fields: LogFields = {}): void =>
      void this.problems.push(`${message} ${Object.values(fields)[0]}`)
    const firewall = new IptablesFirewall({
      kernel: {
        families: this.families,
        choice: CHOICE,
        openTables: () => ({
          sets: this.sets,
          entries: this.entries,
          chains: this.families.map((family) => new IptablesTable(family, this.#programs(family), IPVS_LAYOUT)),
        }),
        watchRules: ({ doubtRules }) => {
          this.announceRules = doubtRules
          return { close: () => undefined }
        },
        auditSets: async () => undefined,
        connections: () => [],
        close: () => undefined,
      },
      settings: {
        detectLocalMode: 'ClusterCIDR',
        clusterCIDR: '10.244.0.0/16,fd00:10:244::/56',
        detectLocal: { bridgeInterface: '', interfaceNamePrefix: '' },
        iptables: { masqueradeAll: false, masqueradeBit: 14 },
      },
      nodeName: 'node0',
      serves: () => true,
      problems: {
        report: (_, subject, found) => this.problems.push(...found.map(({ message }) => `${subject}: ${message}`)),
      },
      log: {
        ...silentLog,
        info: (message, fields = {}) => void this.infos.push([message, ...Object.values(fields)].join(' ')),
        warn: report,
        error: report,
      },
      now,
      listener: {
        partPassed: (_, { failures, unreadable }) => {
          for (const { key, error } of failures) this.problems.push(`${key}: ${error.message}`)
          for (const { table, error } of unreadable) this.problems.push(`${table}: ${error.message}`)
        },
        postponedReady: () => undefined,
      },
    })
    return new IpvsDataplane({
      tables: this.tables,
      connections: async () => new Map(this.connectionsOf()),
      firewall,
      conntrack: {
        findFlows: async () => [],
        deleteFlows: async () => ({ deleted: 0, vanished: 0, failed: 0, error: undefined }),
      },
      schedulers: new ChosenSchedulers({
        configured: 'rr',
        hasScheduler: async (name) => {
          this.askedSchedulers.push(name)
          return !this.missingSchedulers.has(name)
        },
        problems: { report: (_, subject, found) => void this.schedulerProblems.set(subject, found) },
        now,
        log: silentLog,
      }),
      families: this.families,
      drainDeadlineMs: undefined,
      now,
      log: silentLog,
    })
  }

  #programs(family: IpFamily) {
    const memory = this.iptables[family]
    return {
      save: () => memory.save(family),
      restore: async (_: IpFamily, input: string, signal: AbortSignal) => {
        await Promise.race([this.hanging[family], new Promise((resolve) => signal.addEventListener('abort', resolve))])
        signal.throwIfAborted()
        const result = await memory.restore(family, input)
        this.journal.push(`iptables-restore ${family}${result.exitCode === 0 ? '' : ' failed'}`)
        return result
      },
    }
  }
}

export function writesRules({ firewall }: IpvsDataplane): boolean {
  return isAnyPending(firewall.parts)
}

/** Resolves when no rules are being written. */
export async function rulesWritten(dataplane: IpvsDataplane): Promise<void> {
  for (let turns = 0; writesRules(dataplane); turns++) {
    if (turns > 1000) throw new Error('rules are still being written')
    await someTurns(1)
  }
}

/** Waits for some turns of the event loop. */
export async function someTurns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}
