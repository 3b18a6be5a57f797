/**
 * Sets and entries on a real kernel, with the ipset program as the judge. Needs root and ipset.
 * These tests own all sets of their network namespace and destroy them.
 */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { openNetfilter } from '../../native/open.ts'
import { auditSets } from '../../src/ipset/audit.ts'
import { CATALOGUE, definitionOf, type SetDefinition, setName } from '../../src/ipset/catalogue.ts'
import { IpsetConnection } from '../../src/ipset/connection.ts'
import { parametersOf } from '../../src/ipset/diff.ts'
import { EntryTable, SetTable } from '../../src/ipset/tables.ts'
import {
  entryKey,
  type SetEntry,
  type SetEntryOperation,
  type SetOperation,
  type SetParameters,
} from '../../src/ipset/types.ts'
import { AuditShare } from '../../src/sync/audit.ts'
import { reconciled } from '../../src/sync/reconciled.ts'
import { Reconciler } from '../../src/sync/reconciler.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { CodedError } from '../../src/values/errors.ts'
import { IP_FAMILIES, type IpFamily } from '../../src/values/protocol.ts'
import { setsText } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { isMet, needs } from './needs.ts'

const signal = new AbortController().signal
const iptables = isMet('iptables-nft') ? 'iptables-nft' : 'iptables-legacy'
/** For tests in which a rule refers to a set. */
const needsRules = needs(isMet('iptables-nft') ? 'iptables-nft' : 'legacy-iptables')

/** `ipset save` as the recordings have it, sorted. */
function saved(set = ''): string[] {
  return sh(`ipset save ${set}`)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.replace(/ (bucketsize|initval) \S+/g, ''))
    .sort()
}

function set(name: string): SetDefinition {
  const definition = definitionOf(name)
  assert.ok(definition)
  return definition
}

/** Both tables and the reconciler, as composition joins them. */
class World {
  readonly lost: string[] = []
  readonly grown: string[] = []
  readonly sets: TableSync<SetParameters, SetOperation>
  readonly entries: TableSync<SetEntry, SetEntryOperation>
  readonly entryTable: EntryTable
  readonly #reconciler: Reconciler
  #nowMs = 0

  constructor(ipset: IpsetConnection, families: readonly IpFamily[] = IP_FAMILIES) {
    this.entryTable = new EntryTable(ipset, {
      families,
      onSetLost: (name) => {
        this.lost.push(name)
        this.sets.doubt([name])
      },
      onGrown: (name, maxElements) => {
        this.grown.push(`${name} ${maxElements}`)
        this.sets.doubt([name])
      },
    })
    this.sets = new TableSync(new SetTable(ipset, families))
    this.entries = new TableSync(this.entryTable)
    this.#reconciler = new Reconciler([reconciled(this.sets), reconciled(this.entries)])
  }

  wantSets(): this {
    for (const each of CATALOGUE) this.sets.want(each.name, parametersOf(each))
    return this
  }

  want(name: string, ...entries: string[]): this {
    for (const entry of entries) this.entries.want(`${name} ${entry}`, { set: name, entry })
    return this
  }

  unwant(name: string, ...entries: string[]): this {
    for (const entry of entries) this.entries.want(`${name} ${entry}`, undefined)
    return this
  }

  async pass() {
    this.#nowMs += 60_000
    return this.#reconciler.pass({ signal, mayRemove: true, now: () => this.#nowMs })
  }

  doubt(): this {
    this.sets.doubt('all')
    this.entries.doubt('all')
    return this
  }
}

/** `count` entries for a hash:ip,port set. */
function many(count: number, port = 80): string[] {
  return Array.from(
    { length: count },
    (_, index) => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255},tcp:${port}`,
  )
}

describe('ipset', needs('ipset:hash:ip,port,net', 'program:ipset'), () => {
  let ipset: IpsetConnection
  before(async () => {
    ipset = await IpsetConnection.open(openNetfilter())
  })
  beforeEach(() => {
    sh(`${iptables} -F 2>/dev/null; ipset destroy`)
  })
  after(() => {
    sh(`${iptables} -F 2>/dev/null; ipset destroy`)
    ipset.close()
  })

  it('SetTable creates the sets as recorded, and a second pass does nothing', async () => {
    const world = new World(ipset).wantSets()
    assert.deepEqual((await world.pass()).failures, [])
    const expected = CATALOGUE.map(({ name, type, family }) =>
      type === 'bitmap:port'
        ? `create ${name} bitmap:port range 0-65535`
        : `create ${name} ${type} family ${family === 'IPv4' ? 'inet' : 'inet6'} hashsize 1024 maxelem 65536`,
    )
    assert.equal(expected.length, 34)
    assert.deepEqual(saved(), expected.sort())
    assert.equal((await world.doubt().pass()).applied, 0)
    assert.equal((await new World(ipset).wantSets().pass()).applied, 0)
  })

  it('SetTable adopts sets that the ipset command made', async () => {
    const world = new World(ipset).wantSets()
    const commands = CATALOGUE.flatMap(({ name }) =>
      world.sets.kind.diff(name, world.sets.desired(name), undefined).map(world.sets.kind.text),
    )
    sh(commands.join('\n'))
    assert.equal((await world.pass()).applied, 0)
  })

  const ENTRIES: readonly (readonly [string, string])[] = [
    ['KUBE-LOOP-BACK', '10.244.0.10,tcp:8080,10.244.0.10'],
    ['KUBE-6-LOOP-BACK', 'fd00:10:244::10,sctp:9001,fd00:10:244::10'],
    ['KUBE-CLUSTER-IP', '10.96.0.1,tcp:443'],
    ['KUBE-CLUSTER-IP', '10.96.0.10,udp:53'],
    ['KUBE-CLUSTER-IP', '10.96.0.11,sctp:65535'],
    ['KUBE-6-CLUSTER-IP', 'fd00:10:96::1,tcp:443'],
    ['KUBE-6-CLUSTER-IP', '::ffff:0.0.0.1,udp:1'],
    ['KUBE-LOAD-BALANCER-SOURCE-IP', '203.0.113.10,tcp:80,203.0.113.10'],
    ['KUBE-LOAD-BALANCER-SOURCE-CIDR', '203.0.113.10,tcp:80,10.0.0.0/8'],
    ['KUBE-LOAD-BALANCER-SOURCE-CIDR', '203.0.113.10,tcp:80,198.51.100.5'],
    ['KUBE-LOAD-BALANCER-SOURCE-CIDR', '203.0.113.10,tcp:80,128.0.0.0/1'],
    ['KUBE-6-LOAD-BALANCER-SOURCE-CID', '2001:db8:cb::10,tcp:80,2001:db8:5::/64'],
    ['KUBE-6-LOAD-BALANCER-SOURCE-CID', '2001:db8:cb::10,tcp:80,2001:db8:6::1'],
    ['KUBE-6-LOAD-BALANCER-SOURCE-CID', '2001:db8:cb::10,udp:80,8000::/1'],
    ['KUBE-NODE-PORT-TCP', '30080'],
    ['KUBE-6-NODE-PORT-UDP', '65535'],
    ['KUBE-HEALTH-CHECK-NODE-PORT', '0'],
    ['KUBE-NODE-PORT-SCTP-HASH', '10.0.2.15,sctp:30090'],
    ['KUBE-6-NODE-PORT-LOCAL-SCTP-HAS', 'fd00::15,sctp:30090'],
    ['KUBE-IPVS-IPS', '10.96.0.1'],
    ['KUBE-6-IPVS-IPS', 'fd00:10:96::1'],
  ]

  it('EntryTable writes and reads entries of every type and family as ipset save prints them', async () => {
    const world = new World(ipset).wantSets()
    for (const [name, entry] of ENTRIES) world.want(name, entry)
    assert.deepEqual((await world.pass()).failures, [])
    const lines = ENTRIES.map(([name, entry]) => `add ${name} ${entry}`)
    assert.deepEqual(
      saved().filter((line) => line.startsWith('add')),
      lines.toSorted(),
    )
    assert.deepEqual(
      [...(await world.entryTable.list('all', signal)).keys()].map((key) => `add ${key}`).sort(),
      lines.toSorted(),
    )
    assert.equal((await world.doubt().pass()).applied, 0)
    for (const [name, entry] of ENTRIES) world.unwant(name, entry)
    assert.equal((await world.pass()).applied, ENTRIES.length)
    assert.deepEqual(
      saved().filter((line) => line.startsWith('add')),
      [],
    )
  })

  it('EntryTable reads single keys and omits absent ones', async () => {
    const world = new World(ipset).wantSets().want('KUBE-CLUSTER-IP', '10.0.0.1,tcp:1', '10.0.0.2,tcp:1')
    await world.pass()
    const keys = ['KUBE-CLUSTER-IP 10.0.0.2,tcp:1', 'KUBE-CLUSTER-IP 10.0.0.3,tcp:1', 'KUBE-IPVS-IPS 10.0.0.1']
    assert.deepEqual(
      await world.entryTable.list(keys, signal),
      new Map([[keys[0], { set: 'KUBE-CLUSTER-IP', entry: '10.0.0.2,tcp:1' }]]),
    )
  })

  it('EntryTable adds and deletes 10,000 entries in messages of 500', async () => {
    const world = new World(ipset).wantSets()
    await world.pass()
    const entries = many(10_000)
    world.want('KUBE-CLUSTER-IP', ...entries)
    const report = await world.pass()
    assert.equal(report.applied, 10_000)
    assert.equal(saved('KUBE-CLUSTER-IP').length, 10_001)
    assert.equal((await world.doubt().pass()).applied, 0)
    world.unwant('KUBE-CLUSTER-IP', ...entries)
    await world.pass()
    assert.equal(saved('KUBE-CLUSTER-IP').length, 1)
    const before = ipset.counters.messagesSent
    const ops = entries.map((entry) => ({ kind: 'add-entry' as const, set: 'KUBE-CLUSTER-IP', entry }))
    await world.entryTable.apply(ops, signal)
    assert.equal(ipset.counters.messagesSent - before, 20)
  })

  it('EntryTable counts an entry that already exists, or is already gone, as success', async () => {
    const world = new World(ipset).wantSets().want('KUBE-CLUSTER-IP', '10.0.0.1,tcp:1')
    await world.pass()
    const op = { set: 'KUBE-CLUSTER-IP', entry: '10.0.0.1,tcp:1' }
    const gone = { set: 'KUBE-CLUSTER-IP', entry: '10.0.0.9,tcp:1' }
    assert.deepEqual(
      await world.entryTable.apply(
        [
          { kind: 'add-entry', ...op },
          { kind: 'delete-entry', ...gone },
        ],
        signal,
      ),
      [undefined, undefined],
    )
  })

  it('EntryTable names the failed entry and writes the others of its message', async () => {
    const world = new World(ipset).wantSets()
    await world.pass()
    // A range of length 0 cannot be stored; 300.0.0.1 is no address.
    const name = 'KUBE-LOAD-BALANCER-SOURCE-CIDR'
    const entries = [
      '10.0.0.1,tcp:1,10.0.0.0/8',
      '10.0.0.1,tcp:1,0.0.0.0/0',
      '10.0.0.1,tcp:1,300.0.0.1',
      '10.0.0.2,tcp:1,10.0.0.0/8',
    ]
    const outcomes = await world.entryTable.apply(
      entries.map((entry) => ({ kind: 'add-entry' as const, set: name, entry })),
      signal,
    )
    assert.deepEqual(
      outcomes.map((outcome) => (outcome instanceof CodedError ? outcome.code : outcome)),
      [undefined, 'IPSET_ERR_INVALID_CIDR', 'ipset-entry-invalid', undefined],
    )
    assert.match(
      outcomes[1]?.message ?? '',
      /^ipset add KUBE-LOAD-BALANCER-SOURCE-CIDR 10\.0\.0\.1,tcp:1,0\.0\.0\.0\/0: /,
    )
    assert.equal(saved(name).length, 3)
  })

  it('Reconciler repairs changes made by hand, exceptions too', async () => {
    const world = new World(ipset)
      .wantSets()
      .want('KUBE-CLUSTER-IP', '10.0.0.1,tcp:1', '10.0.0.2,tcp:1')
      .want('KUBE-LOAD-BALANCER-SOURCE-CIDR', '10.0.0.1,tcp:1,10.0.0.0/8', '10.0.0.1,tcp:1,11.0.0.0/8')
    await world.pass()
    const right = saved()
    sh(`ipset del KUBE-CLUSTER-IP 10.0.0.1,tcp:1
      ipset add KUBE-CLUSTER-IP 10.0.0.9,99:0
      ipset add KUBE-CLUSTER-IP 10.0.0.9,icmp:8/0
      ipset add KUBE-CLUSTER-IP 10.0.0.9,udplite:80
      ipset del KUBE-LOAD-BALANCER-SOURCE-CIDR 10.0.0.1,tcp:1,10.0.0.0/8
      ipset add KUBE-LOAD-BALANCER-SOURCE-CIDR 10.0.0.1,tcp:1,10.0.0.0/8 nomatch
      ipset add KUBE-LOAD-BALANCER-SOURCE-CIDR 10.0.0.1,tcp:1,10.9.0.0/16 nomatch
      ipset add KUBE-6-NODE-PORT-TCP 1-1000
      ipset destroy KUBE-6-LOOP-BACK
      ipset create FOREIGN hash:ip; ipset add FOREIGN 10.0.0.1`)
    const report = await world.doubt().pass()
    assert.deepEqual(report.failures, [])
    assert.deepEqual(
      saved().filter((line) => !line.includes('FOREIGN')),
      right,
    )
    assert.equal(saved('FOREIGN').length, 2)
    assert.ok(report.repairs.length > 0)
    assert.equal((await world.doubt().pass()).applied, 0)
  })

  it('auditSets doubts entries that were changed by hand, and nothing else', async () => {
    const world = new World(ipset)
      .wantSets()
      .want('KUBE-CLUSTER-IP', '10.0.0.1,tcp:1', '10.0.0.2,tcp:1')
      .want('KUBE-IPVS-IPS', '10.0.0.1')
      .want('KUBE-LOOP-BACK', '10.0.0.1,tcp:1,10.0.0.1')
    await world.pass()
    const doubted: string[] = []
    const mirror = <Item, Op>(sync: TableSync<Item, Op>) => ({
      live: (key: string) => sync.live(key),
      liveKeys: () => sync.liveKeys(),
      liveCount: sync.liveCount,
      forEachLive: (visit: (item: Item, key: string) => void) => sync.forEachLive(visit),
      doubt: (keys: readonly string[]) => {
        doubted.push(...keys)
      },
    })
    const audit = async (of: World): Promise<string[]> => {
      doubted.length = 0
      await auditSets({
        ipset,
        families: IP_FAMILIES,
        sets: mirror(of.sets),
        entries: mirror(of.entries),
        share: new AuditShare({ share: 1, now: () => 0, sleep: async () => undefined }),
        onDoubt: () => undefined,
        signal,
      })
      return doubted.toSorted()
    }
    assert.deepEqual(await audit(world), [])
    sh(`ipset del KUBE-CLUSTER-IP 10.0.0.1,tcp:1; ipset add KUBE-CLUSTER-IP 10.0.0.3,tcp:1
      ipset add KUBE-6-IPVS-IPS fd00::1; ipset destroy KUBE-LOOP-BACK; ipset create KUBE-LOOP-BACK hash:ip
      ipset destroy KUBE-NODE-PORT-TCP; ipset create kube-ipvs-swap-1 hash:ip; ipset create FOREIGN hash:ip`)
    assert.deepEqual(await audit(world), [
      'KUBE-6-IPVS-IPS fd00::1',
      'KUBE-CLUSTER-IP 10.0.0.1,tcp:1',
      'KUBE-CLUSTER-IP 10.0.0.3,tcp:1',
      'KUBE-LOOP-BACK',
      'KUBE-LOOP-BACK 10.0.0.1,tcp:1,10.0.0.1',
      'KUBE-NODE-PORT-TCP',
      'kube-ipvs-swap-1',
    ])
    sh('ipset flush; ipset destroy')
    const large = new World(ipset)
      .wantSets()
      .want('KUBE-IPVS-IPS', ...Array.from({ length: 1100 }, (_, index) => `10.1.${index >> 8}.${index & 255}`))
    await large.pass()
    sh('ipset del KUBE-IPVS-IPS 10.1.0.0; ipset add KUBE-IPVS-IPS 10.9.9.9')
    assert.deepEqual(await audit(large), ['KUBE-IPVS-IPS 10.1.0.0', 'KUBE-IPVS-IPS 10.9.9.9'])
    sh('ipset del KUBE-IPVS-IPS 10.9.9.9')
    assert.deepEqual(await audit(large), ['KUBE-IPVS-IPS 10.1.0.0'])
  })

  it('EntryTable reports a lost set, and the next passes restore it with its entries', async () => {
    const world = new World(ipset).wantSets().want('KUBE-CLUSTER-IP', '10.0.0.1,tcp:1')
    await world.pass()
    sh('ipset destroy KUBE-CLUSTER-IP')
    world.want('KUBE-CLUSTER-IP', '10.0.0.2,tcp:1')
    const [failure] = (await world.pass()).failures
    assert.deepEqual([failure?.command, world.lost], ['ipset add KUBE-CLUSTER-IP 10.0.0.2,tcp:1', ['KUBE-CLUSTER-IP']])
    await world.doubt().pass()
    assert.equal(saved('KUBE-CLUSTER-IP').length, 3)
  })

  it(
    'SetTable replaces a set with other parameters while a rule refers to it, and keeps its entries',
    needsRules,
    async () => {
      sh(`ipset create KUBE-CLUSTER-IP hash:ip,port maxelem 1000 timeout 0 counters
      ipset add KUBE-CLUSTER-IP 10.0.0.1,tcp:1; ipset add KUBE-CLUSTER-IP 10.0.0.7,tcp:1
      ipset create KUBE-NODE-PORT-TCP bitmap:port range 30000-32767; ipset add KUBE-NODE-PORT-TCP 30001
      ${iptables} -A FORWARD -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
      ${iptables} -A FORWARD -p tcp -m set --match-set KUBE-NODE-PORT-TCP dst -j ACCEPT`)
      const world = new World(ipset)
        .wantSets()
        .want('KUBE-CLUSTER-IP', '10.0.0.1,tcp:1', '10.0.0.2,tcp:1')
        .want('KUBE-NODE-PORT-TCP', '30001')
      assert.deepEqual((await world.pass()).failures, [])
      assert.deepEqual(saved('KUBE-CLUSTER-IP'), [
        'add KUBE-CLUSTER-IP 10.0.0.1,tcp:1',
        'add KUBE-CLUSTER-IP 10.0.0.2,tcp:1',
        'create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536',
      ])
      assert.deepEqual(saved('KUBE-NODE-PORT-TCP'), [
        'add KUBE-NODE-PORT-TCP 30001',
        'create KUBE-NODE-PORT-TCP bitmap:port range 0-65535',
      ])
      const rules = sh(`${iptables}-save`)
      assert.match(rules, /--match-set KUBE-CLUSTER-IP dst,dst/)
      assert.match(rules, /--match-set KUBE-NODE-PORT-TCP dst/)
      assert.equal(setsText('list', '-n').trim().split('\n').length, 34)
    },
  )

  it(
    'SetTable replaces a set of another type, unless a rule refers to it: then it stays and the error says so',
    needsRules,
    async () => {
      sh(`ipset create KUBE-CLUSTER-IP hash:ip; ipset add KUBE-CLUSTER-IP 10.0.0.1
      ipset create KUBE-IPVS-IPS hash:ip family inet6; ipset add KUBE-IPVS-IPS fd00::1
      ${iptables} -A FORWARD -m set --match-set KUBE-CLUSTER-IP dst -j ACCEPT`)
      const world = new World(ipset)
        .wantSets()
        .want('KUBE-CLUSTER-IP', '10.0.0.1,tcp:1', '10.0.0.2,tcp:1')
        .want('KUBE-IPVS-IPS', '10.0.0.1')
      const report = await world.pass()
      assert.deepEqual(
        report.failures.map(({ key, error }) => [key, error instanceof CodedError ? error.code : error]),
        [
          ['KUBE-CLUSTER-IP', 'ipset-type-in-use'],
          ['KUBE-CLUSTER-IP 10.0.0.1,tcp:1', 'ipset-wrong-type'],
          ['KUBE-CLUSTER-IP 10.0.0.2,tcp:1', 'ipset-wrong-type'],
        ],
      )
      assert.deepEqual(saved('KUBE-IPVS-IPS').length, 2)
      assert.match(sh('ipset save KUBE-CLUSTER-IP'), /add KUBE-CLUSTER-IP 10.0.0.1\n/)
      assert.equal(setsText('list', '-n').trim().split('\n').length, 34)
      sh(`${iptables} -F`)
      assert.deepEqual((await world.pass()).failures, [])
      assert.equal(saved('KUBE-CLUSTER-IP').length, 3)
    },
  )

  it(
    'EntryTable makes a full set larger while a rule refers to it, and it is made smaller again when it is at most half full',
    needsRules,
    async () => {
      const world = new World(ipset).wantSets()
      await world.pass()
      sh(`${iptables} -A FORWARD -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT`)
      const all = many(66_000)
      const change = async (kind: SetEntryOperation['kind'], entries: readonly string[]): Promise<void> => {
        const ops = entries.map((entry) => ({ kind, set: 'KUBE-CLUSTER-IP', entry }))
        assert.deepEqual(new Set(await world.entryTable.apply(ops, signal)), new Set([undefined]))
      }
      await change('add-entry', all)
      assert.deepEqual(world.grown, ['KUBE-CLUSTER-IP 131072'])
      const state = async (): Promise<unknown[]> => {
        const { elements, maxElements, references } = (await ipset.getSet('KUBE-CLUSTER-IP')) ?? {}
        return [elements, maxElements, references]
      }
      assert.deepEqual(await state(), [66_000, 131_072, 1])
      // A new process takes it as it is, and kube-proxy, whose sets have this size, refuses it.
      const restart = async (entries: readonly string[]): Promise<number> =>
        (
          await new World(ipset)
            .wantSets()
            .want('KUBE-CLUSTER-IP', ...entries)
            .pass()
        ).applied
      assert.equal(await restart(all), 0)
      const create = 'ipset create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536 -exist'
      assert.throws(() => sh(`${create} 2>&1`))
      await change('delete-entry', all.slice(32_768 + 1))
      assert.equal(await restart(all.slice(0, 32_768 + 1)), 0)
      await change('delete-entry', all.slice(32_768, 32_768 + 1))
      assert.equal(await restart(all.slice(0, 32_768)), 1)
      assert.deepEqual(await state(), [32_768, 65_536, 1])
      sh(create)
      assert.equal(setsText('list', '-n').trim().split('\n').length, 34)
    },
  )

  it('EntryTable grows a small set in the middle of a message', async () => {
    sh('ipset create KUBE-IPVS-IPS hash:ip maxelem 10')
    const world = new World(ipset)
    const ops = Array.from({ length: 700 }, (_, index) => ({
      kind: 'add-entry' as const,
      set: 'KUBE-IPVS-IPS',
      entry: `10.0.${index >> 8}.${index & 255}`,
    }))
    assert.deepEqual(new Set(await world.entryTable.apply(ops, signal)), new Set([undefined]))
    assert.deepEqual(world.grown, ['KUBE-IPVS-IPS 65536'])
    assert.equal(saved('KUBE-IPVS-IPS').length, 701)
  })

  it('SetTable removes the rest of an interrupted replacement, and with nothing wanted all of our sets and no others', async () => {
    sh(
      'ipset create kube-ipvs-swap-3 hash:ip; ipset create kube-ipvs-swap-99 hash:ip; ipset create KUBE-FOREIGN hash:ip',
    )
    const world = new World(ipset).wantSets()
    await world.pass()
    assert.equal(setsText('list', '-n').trim().split('\n').length, 36)
    const empty = new World(ipset)
    assert.deepEqual((await empty.pass()).failures, [])
    assert.deepEqual(setsText('list', '-n').trim().split('\n').sort(), ['KUBE-FOREIGN', 'kube-ipvs-swap-99'])
  })

  it('SetTable reports that it cannot destroy a set that a rule refers to', needsRules, async () => {
    await new World(ipset).wantSets().pass()
    sh(`${iptables} -A FORWARD -m set --match-set KUBE-IPVS-IPS dst -j ACCEPT`)
    const [failure, ...others] = (await new World(ipset).pass()).failures
    assert.deepEqual([failure?.command, others], ['ipset destroy KUBE-IPVS-IPS', []])
    assert.ok(failure?.error instanceof CodedError)
    assert.equal(failure.error.code, 'IPSET_ERR_BUSY')
  })

  it('SetTable reads and writes only its families', async () => {
    const world = new World(ipset, ['IPv6']).wantSets()
    sh('ipset create KUBE-CLUSTER-IP hash:ip,port; ipset add KUBE-CLUSTER-IP 10.0.0.1,tcp:1')
    for (const { name, family } of CATALOGUE) if (family === 'IPv4') world.sets.want(name, undefined)
    await world.pass()
    assert.equal(setsText('list', '-n').trim().split('\n').length, 18)
    assert.equal(saved('KUBE-CLUSTER-IP').length, 2)
  })

  it('IpsetConnection.listEntries reads a set that fills many datagrams', async () => {
    sh('ipset create KUBE-6-LOOP-BACK hash:ip,port,ip family inet6')
    const definition = set(setName('LOOP-BACK', 'IPv6'))
    const entries = Array.from(
      { length: 5000 },
      (_, index) => `fd00::${index.toString(16)},tcp:80,fd00::${index.toString(16)}`,
    ).map((entry) => entry.replaceAll('fd00::0,', 'fd00::,').replace(/fd00::0$/, 'fd00::'))
    const ops = entries.map((entry) => ({ kind: 'add-entry' as const, set: definition.name, entry }))
    await new World(ipset).entryTable.apply(ops, signal)
    const listed = await ipset.listEntries(definition)
    assert.deepEqual(listed?.map(entryKey).sort(), entries.map((entry) => `${definition.name} ${entry}`).sort())
  })

  it('IpsetConnection.listSets reads past sets of any other type', async () => {
    sh(`for type in 'list:set size 4' 'bitmap:ip range 10.0.0.0/24 timeout 3' 'bitmap:ip,mac range 10.0.0.0/24' hash:mac \\
        'hash:net,iface family inet6' 'hash:ip,mark markmask 0xff' 'hash:ip netmask 24' 'hash:net,port,net comment' 'hash:net forceadd'
      do n=$((n+1)); ipset create foreign$n $type 2>/dev/null || true; done
      ipset create KUBE-IPVS-IPS hash:ip netmask 24`)
    assert.ok(setsText('list', '-n').split('\n').length > 4)
    const listed = await ipset.listSets()
    assert.deepEqual(
      listed.map(({ name, extras }) => [name, extras]),
      [['KUBE-IPVS-IPS', 'netmask 24']],
    )
    assert.deepEqual((await new World(ipset).wantSets().pass()).failures, [])
    assert.equal((await ipset.getSet('KUBE-IPVS-IPS'))?.extras, '')
  })

  it('IpsetConnection.typeRevisions lists the types of the kernel', async () => {
    const revisions = await ipset.typeRevisions('hash:ip,port', 'IPv6')
    assert.ok(revisions !== undefined && revisions.lowest <= 5 && revisions.highest >= 5)
    assert.ok((await ipset.typeRevisions('bitmap:port', undefined)) !== undefined)
    // No such type: nothing checks the name before the kernel does.
    assert.equal(await ipset.typeRevisions('hash:nothing' as 'hash:ip', 'IPv4'), undefined)
  })

  it('IpsetConnection names errors as the kernel header does', async () => {
    const code = async (promise: Promise<unknown>): Promise<string> =>
      promise.then(
        () => 'none',
        (error: unknown) => (error instanceof CodedError ? error.code : 'other'),
      )
    const parameters = parametersOf(set('KUBE-IPVS-IPS'))
    await ipset.create('KUBE-IPVS-IPS', 'hash:ip', parameters)
    await ipset.create('KUBE-IPVS-IPS', 'hash:ip', parameters)
    assert.equal(await code(ipset.create('KUBE-IPVS-IPS', 'hash:ip', { ...parameters, maxElements: 5 })), 'EEXIST')
    assert.equal(await code(ipset.create('KUBE-IPVS-IPS', 'hash:ip', parameters, { exclusive: true })), 'EEXIST')
    assert.equal(await code(ipset.create('x', 'hash:nothing' as 'hash:ip', parameters)), 'IPSET_ERR_FIND_TYPE')
    assert.equal(await code(ipset.destroy('x')), 'none')
    assert.equal(await code(ipset.swap('x', 'KUBE-IPVS-IPS')), 'ENOENT')
    await ipset.create('KUBE-CLUSTER-IP', 'hash:ip,port', parametersOf(set('KUBE-CLUSTER-IP')))
    assert.equal(await code(ipset.swap('KUBE-CLUSTER-IP', 'KUBE-IPVS-IPS')), 'IPSET_ERR_TYPE_MISMATCH')
    assert.equal(await code(ipset.rename('KUBE-CLUSTER-IP', 'KUBE-IPVS-IPS')), 'IPSET_ERR_EXIST_SETNAME2')
    assert.equal(await ipset.getSet('x'), undefined)
    assert.equal(await ipset.listEntries(set('KUBE-LOOP-BACK')), undefined)
  })
})
