/**
 * Our jumps in PREROUTING and OUTPUT of nat stand in front of rules that take packets of Services,
 * but not at any price.
 */
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { FIRST_WAIT_MS, MAX_MOVES } from '../../src/iptables/jump-order.ts'
import { IptablesTable, type RulesRead } from '../../src/iptables/table.ts'
import type { IptablesItem, IptablesOperation } from '../../src/iptables/types.ts'
import { renderIpvsRules } from '../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import { IPVS_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import { RuleLoop } from '../../src/modes/rule-loops.ts'
import { everything } from '../modes/ipvs/iptables-firewall/rules/wanted.ts'
import { MemoryIptables } from './memory-iptables.ts'

const HOSTPORT = '-m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT'
const DNAT = '-p tcp -m tcp --dport 443 -j DNAT --to-destination 10.244.0.5:443'
const OURS = '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'

let benches: Bench[] = []
afterEach(async () => {
  for (const bench of benches) await bench.loop.close()
  benches = []
})

class Bench {
  readonly memory = new MemoryIptables()
  nowMs = 0
  read: RulesRead = { unprintable: [], contested: [] }
  readonly commands: string[] = []
  readonly table: IptablesTable
  readonly loop: RuleLoop<IptablesItem, IptablesOperation>

  constructor() {
    const now = (): number => this.nowMs
    this.table = new IptablesTable('IPv4', this.memory, IPVS_LAYOUT, {
      nft: this.memory.access,
      onRead: (_family, read) => {
        this.read = read
      },
      now,
    })
    this.loop = new RuleLoop(this.table, {
      now,
      onPass: ({ repairs, failures }) => {
        assert.deepEqual(failures, [])
        this.commands.push(...repairs.flatMap(({ commands }) => commands))
      },
      onMissing: (error) => assert.fail(error),
      onError: (error) => assert.fail(String(error)),
    })
    for (const [key, item] of renderIpvsRules(everything('IPv4')).items) this.loop.sync.want(key, item)
  }

  static async settled(): Promise<Bench> {
    const bench = new Bench()
    benches.push(bench)
    bench.memory.run('nat', '-N CNI-HOSTPORT-DNAT')
    bench.memory.run('nat', '-N CNI-DN-abc')
    await bench.pass()
    assert.deepEqual(bench.chain('PREROUTING'), [OURS])
    return bench
  }

  chain(name: string): readonly string[] | undefined {
    return this.memory.tables.get('nat')?.get(name)
  }

  /** Another program writes, which is announced where it is looked for. */
  async foreign(chain: string, rule: string, verb: '-I' | '-A' | '-D' = '-I'): Promise<void> {
    this.memory.run('nat', `${verb} ${chain} ${rule}`)
    if (verb !== '-D' && !this.table.watches('nat', chain)) return
    this.loop.sync.doubt('all')
    await this.pass()
  }

  /** Happens once, after the next reading has its text and before it ends. */
  duringSave(happens: () => void): void {
    const save = this.memory.save.bind(this.memory)
    this.memory.save = async (family) => {
      const text = await save(family)
      this.memory.save = save
      happens()
      return text
    }
  }

  async pass(): Promise<void> {
    this.loop.request()
    for (let turns = 0; this.loop.isPending; turns++) {
      assert.ok(turns < 1000)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}

describe('a jump of ours behind a rule of another program', () => {
  it('is moved to the top by one restore when the rule takes packets', async () => {
    const bench = await Bench.settled()
    const before = bench.memory.inputs.length
    await bench.foreign('PREROUTING', '-s 192.0.2.0/24 -j ACCEPT')
    assert.deepEqual(bench.chain('PREROUTING'), [OURS, '-s 192.0.2.0/24 -j ACCEPT'])
    assert.equal(bench.memory.inputs.length, before + 1)
    assert.equal(bench.memory.inputs.at(-1), `*nat\n-D PREROUTING ${OURS}\n-I PREROUTING ${OURS}\nCOMMIT\n`)
    assert.deepEqual(bench.commands, [`iptables -t nat -D PREROUTING ${OURS}\niptables -t nat -I PREROUTING ${OURS}`])
  })

  it('is moved as soon as the chain that the rule leads to takes packets', async () => {
    const bench = await Bench.settled()
    for (const chain of ['PREROUTING', 'OUTPUT']) await bench.foreign(chain, HOSTPORT)
    assert.deepEqual(bench.chain('PREROUTING'), [HOSTPORT, OURS], 'an empty chain does no harm')
    assert.ok(bench.table.watches('nat', 'CNI-HOSTPORT-DNAT') && !bench.table.watches('nat', 'CNI-DN-abc'))
    await bench.foreign('CNI-HOSTPORT-DNAT', '-p tcp -j CNI-DN-abc', '-A')
    assert.deepEqual(bench.chain('PREROUTING'), [HOSTPORT, OURS])
    await bench.foreign('CNI-DN-abc', DNAT, '-A')
    for (const chain of ['PREROUTING', 'OUTPUT']) assert.deepEqual(bench.chain(chain), [OURS, HOSTPORT])
    bench.loop.sync.doubt('all')
    await bench.pass()
    assert.ok(!bench.table.watches('nat', 'CNI-DN-abc'), 'nothing is in front of our jumps any more')
  })

  it('is moved although the rule that takes packets came while the rules were being read', async () => {
    const bench = await Bench.settled()
    bench.duringSave(() => {
      bench.memory.run('nat', `-A CNI-HOSTPORT-DNAT ${DNAT}`)
      assert.ok(!bench.table.watches('nat', 'CNI-HOSTPORT-DNAT'), 'it becomes known with this reading')
    })
    await bench.foreign('PREROUTING', HOSTPORT)
    assert.equal(bench.table.nextReadMs(), 1000)
    bench.nowMs += 1000
    await bench.pass()
    assert.deepEqual(bench.chain('PREROUTING'), [OURS, HOSTPORT])
    const before = bench.memory.saves
    await bench.pass()
    assert.equal(bench.memory.saves, before, 'it is not read again without a reason')
  })

  it('is read again a second after the end of a reading that may have missed a rule, however long it took', async () => {
    const bench = await Bench.settled()
    bench.duringSave(() => {
      bench.nowMs += 3000
      bench.table.watches('nat', 'CNI-HOSTPORT-DNAT')
    })
    await bench.foreign('PREROUTING', HOSTPORT)
    assert.equal(bench.table.nextReadMs(), 4000)
    const before = bench.memory.saves
    await bench.pass()
    assert.equal(bench.memory.saves, before)
  })

  it('is read again after a reading that may have missed a rule, whatever else was read meanwhile', async () => {
    const { signal } = new AbortController()
    const partly = async ({ table }: Bench): Promise<void> => {
      assert.equal((await table.list(['nat KUBE-SERVICES'], signal)).size, 1)
    }
    /** A restore that fails without a reason, after which the run looks which jumps are there. */
    const inBetween = async ({ memory, loop, pass }: Bench): Promise<void> => {
      const [before, calls] = [memory.saves, { count: 0 }]
      memory.instead = () => (calls.count++ === 0 ? { exitCode: 1, errorText: 'it did not work' } : undefined)
      for (const key of ['nat KUBE-SERVICES', 'filter KUBE-FORWARD']) {
        const item = loop.sync.live(key)
        assert.ok(item?.kind === 'chain')
        loop.sync.want(key, { ...item, rules: [...item.rules, '-j RETURN'] })
      }
      await pass.call({ loop })
      assert.equal(memory.saves, before + 1)
    }
    const failed = async ({ table, memory }: Bench): Promise<void> => {
      const { save } = memory
      memory.save = () => Promise.reject(new TypeError('broken'))
      await assert.rejects(table.list(['nat KUBE-SERVICES'], signal), TypeError)
      memory.save = save
    }
    for (const read of [partly, inBetween, failed]) {
      const bench = await Bench.settled()
      bench.duringSave(() => {
        bench.memory.run('nat', `-A CNI-HOSTPORT-DNAT ${DNAT}`)
        assert.ok(!bench.table.watches('nat', 'CNI-HOSTPORT-DNAT'))
      })
      await bench.foreign('PREROUTING', HOSTPORT)
      await read(bench)
      assert.equal(bench.table.nextReadMs(), 1000)
      bench.nowMs += 1000
      await bench.pass()
      assert.deepEqual(bench.chain('PREROUTING'), [OURS, HOSTPORT])
      assert.equal(bench.table.nextReadMs(), undefined)
    }
  })

  it('is read again when its wait is over, also when the last reading may have missed a rule', async () => {
    const bench = await Bench.settled()
    bench.memory.run('nat', `-A CNI-HOSTPORT-DNAT ${DNAT}`)
    for (let round = 0; bench.read.contested.length === 0; round++) {
      assert.ok(round <= MAX_MOVES)
      if (round > 0) bench.memory.run('nat', `-D PREROUTING ${HOSTPORT}`)
      await bench.foreign('PREROUTING', HOSTPORT)
    }
    const dueMs = bench.table.nextReadMs()
    assert.equal(dueMs, FIRST_WAIT_MS)
    bench.nowMs = FIRST_WAIT_MS - 500
    bench.duringSave(() => bench.table.watches('nat', 'CNI-HOSTPORT-DNAT'))
    bench.loop.sync.doubt('all')
    await bench.pass()
    assert.equal(bench.table.nextReadMs(), dueMs)
  })

  it('stays where the rule leads only to rules that mark and return', async () => {
    const bench = await Bench.settled()
    bench.memory.run('nat', '-N cali-PREROUTING')
    bench.memory.run('nat', '-A cali-PREROUTING -j MARK --set-xmark 0x1/0x1')
    const before = bench.memory.inputs.length
    await bench.foreign('PREROUTING', '-m comment --comment "cali:6gwbT8clXdHdC1b1" -j cali-PREROUTING')
    assert.equal(bench.memory.inputs.length, before)
  })

  it('is moved in front of a rule of nft, which keeps iptables from deleting the old jump', async () => {
    const bench = await Bench.settled()
    await bench.foreign('PREROUTING', 'nft ct state new accept')
    assert.deepEqual(bench.chain('PREROUTING'), [OURS, 'nft ct state new accept'])
    assert.equal(bench.read.unprintable.length, 1)
  })

  it('is left to a program that insists, which is reported until it gives up', async () => {
    const bench = await Bench.settled()
    bench.memory.run('nat', `-A CNI-HOSTPORT-DNAT ${DNAT}`)
    const fight = async (): Promise<boolean> => {
      bench.nowMs += 70_000
      if (bench.chain('PREROUTING')?.[0] !== HOSTPORT) {
        if (bench.chain('PREROUTING')?.includes(HOSTPORT) === true) bench.memory.run('nat', `-D PREROUTING ${HOSTPORT}`)
        await bench.foreign('PREROUTING', HOSTPORT)
      } else await bench.pass()
      return bench.chain('PREROUTING')?.[0] === OURS
    }
    const rounds: boolean[] = []
    for (let round = 0; round < MAX_MOVES + 3; round++) rounds.push(await fight())
    assert.deepEqual(rounds, [...Array.from({ length: MAX_MOVES }, () => true), false, false, false])
    assert.deepEqual(
      bench.read.contested.map(({ place, rival }) => [place.from, rival.rule, rival.takes]),
      [['PREROUTING', HOSTPORT, [`-A CNI-HOSTPORT-DNAT ${DNAT}`]]],
    )
    assert.ok(bench.loop.isClean === false || bench.loop.sync.nextDueMs() === undefined)
    // The wait is over: the loop reads by itself, and the other program has given up.
    bench.nowMs += FIRST_WAIT_MS
    await bench.pass()
    assert.deepEqual([bench.chain('PREROUTING'), bench.read.contested], [[OURS, HOSTPORT], []])
    bench.nowMs += 61_000
    await bench.pass()
    assert.equal(bench.table.nextReadMs(), undefined)
  })
})
