/**
 * The soak of the evidence without its guest: the changes that it makes, the lines that it compares,
 * its statistics, and what it calls a problem.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ApiStore } from '../../dev/api-server/store.ts'
import { type Change, Changes, ROUNDS_A_CYCLE, START_SETTINGS } from '../../dev/evidence/soak/changes.ts'
import { SERVICES, START, writeService, writeStart } from '../../dev/evidence/soak/cluster.ts'
import { blockMeans, type Point, slopeOf, studentQuantile } from '../../dev/evidence/soak/figures.ts'
import { judgeSoak } from '../../dev/evidence/soak/judge.ts'
import { countsOf, differences, nftLines, ruleLines, setLine } from '../../dev/evidence/soak/listing.ts'
import { Random } from '../../dev/evidence/fuzz/random.ts'

const LENGTH = 2_000

describe('the changes of the soak', () => {
  const cycleOf = (seed: number): Change[][] => {
    const changes = new Changes(seed)
    return Array.from({ length: ROUNDS_A_CYCLE }, () => [...changes.round(LENGTH)])
  }

  it('are the same of the same seed, and others of another one', () => {
    assert.deepEqual(cycleOf(1), cycleOf(1))
    assert.notDeepEqual(cycleOf(1), cycleOf(2))
  })

  it('have in each cycle every mode, firewall and kind of virtual address, and return from each', () => {
    const cycle = cycleOf(1).flat()
    const settings = cycle.flatMap((change) => (change.kind === 'settings' ? [change.settings] : []))
    for (const [field, values] of [
      ['mode', ['ipvs', 'iptables']],
      ['firewall', ['iptables', 'nftables']],
      ['virtualAddresses', ['addresses', 'routes']],
      ['reload', [1, 2, 0]],
    ] as const)
      assert.deepEqual(new Set(settings.map((one) => one[field])), new Set<unknown>(values), field)
    assert.deepEqual(settings.at(-1), START_SETTINGS)
    const kinds = new Set(cycle.map(({ kind }) => kind))
    assert.deepEqual(kinds, new Set(['service', 'zone', 'address', 'settings', 'interruption']))
  })

  it('switch mode or firewall no more than three times in a quarter of an hour, which the program allows', () => {
    const changes = new Changes(5)
    const switches: number[] = []
    let before = START_SETTINGS
    let made = 0
    for (let round = 0; round < 100; round++)
      for (const change of changes.round(LENGTH)) {
        made++
        if (change.kind !== 'settings') continue
        const { mode, firewall } = change.settings
        if (mode !== before.mode || firewall !== before.firewall) switches.push(made)
        before = change.settings
      }
    assert.ok(switches.length >= 6, `${switches.length} switches`)
    for (const [index, at] of switches.entries()) {
      const later = switches[index + 3]
      assert.ok(later === undefined || later - at > 900 * 100, `${later} after ${at}`)
    }
  })

  it('lead in each round of about the wanted length back to the objects of the start', () => {
    const contents = (store: ApiStore): Map<string, string> =>
      new Map(
        [...store.objects.services, ...store.objects.endpointslices].map(([key, { kind, json }]) => [
          `${kind} ${key}`,
          // Another life has another uid, and each write another version.
          json.replaceAll(/"(?:resourceVersion|uid)":"[^"]*"/g, ''),
        ]),
      )
    const store = new ApiStore()
    writeStart(store)
    const start = contents(store)
    assert.equal(start.size, 2 * SERVICES)
    const changes = new Changes(3)
    for (let round = 0; round < 3; round++) {
      let made = 0
      let most = 0
      const extent = { isThere: false, zone: 0 }
      for (const change of changes.round(LENGTH)) {
        made++
        if (change.kind === 'service') writeService(store, change.service, change.from, change.to)
        if (change.kind === 'address') extent.isThere = change.isThere
        if (change.kind === 'zone') extent.zone = change.zone
        most = Math.max(most, changes.left)
      }
      assert.ok(made >= LENGTH && made <= LENGTH + 2, `${made} changes`)
      assert.ok(most > LENGTH / 10, `at most ${most} Services were changed at the same time`)
      assert.deepEqual(contents(store), start)
      assert.deepEqual(extent, { isThere: false, zone: 0 })
    }
  })

  it('never use a state twice, so that nothing about it can be known from before', () => {
    const seen = new Set<string>()
    const guests = new Set<number>()
    for (const change of cycleOf(4).flat()) {
      if (change.kind !== 'service' || change.to === undefined) continue
      const { from, to, service } = change
      for (const field of ['endpoints', 'annotation', 'ranges'] as const) {
        if (to[field] === START[field] || to[field] === from?.[field]) continue
        assert.ok(!seen.has(`${field} ${to[field]}`))
        seen.add(`${field} ${to[field]}`)
      }
      if (service >= SERVICES && from === undefined) {
        assert.ok(!guests.has(service))
        guests.add(service)
      }
    }
    assert.ok(seen.size > LENGTH && guests.size > 50, `${seen.size} states, ${guests.size} Services that came`)
  })
})

describe('the slope of the soak', () => {
  const line = (count: number, slope: number, noise: (index: number) => number): Point[] =>
    Array.from({ length: count }, (_, index) => ({ x: index / count, y: 5 + (slope * index) / count + noise(index) }))
  const uniform = (random: Random): number => random.next() / 2 ** 32 - 0.5

  it('is exact on a line, and absent with fewer than four points', () => {
    const { slope, low, high } = slopeOf(line(10, 3, () => 0)) ?? assert.fail()
    for (const one of [slope, low, high]) assert.ok(Math.abs(one - 3) < 1e-9, String(one))
    assert.equal(slopeOf(line(3, 3, () => 0)), undefined)
  })

  it('has the interval of a textbook: 1, 3, 2, 5, 4 over 1 to 5', () => {
    const points = [1, 3, 2, 5, 4].map((y, index) => ({ x: index + 1, y }))
    const { slope, low, high } = slopeOf(points) ?? assert.fail()
    // 0.8 ± 3.182 · √(3.6 / 3 / 10): neighbours repel each other, so nothing is widened.
    assert.ok(Math.abs(slope - 0.8) < 1e-9)
    assert.ok(Math.abs(high - slope - 3.182 * Math.sqrt(0.12)) < 1e-6, String(high))
    assert.ok(Math.abs(slope - low - (high - slope)) < 1e-9)
  })

  it('finds no growth in noise, also where each point depends on the one before', () => {
    for (const [memory, most] of [
      [0, 30],
      [0.6, 60],
    ] as const) {
      let alarms = 0
      for (let seed = 1; seed <= 500; seed++) {
        const random = new Random(seed)
        let before = 0
        const noise = (): number => (before = memory * before + uniform(random))
        if ((slopeOf(line(40, 0, noise))?.low ?? 0) > 0) alarms++
      }
      // 12 are expected where the interval is right; least squares alone has 80 with a memory of 0.6.
      assert.ok(alarms <= most, `${alarms} of 500 with a memory of ${memory}`)
    }
  })

  it('finds a growth that is twice as large as the noise', () => {
    const random = new Random(1)
    const { slope, low, high } = slopeOf(line(40, 2, () => uniform(random))) ?? assert.fail()
    assert.ok(low > 1 && high < 3 && low < slope && slope < high, `${low} ${slope} ${high}`)
  })

  it('takes the quantiles of Student, and means of whole blocks', () => {
    assert.deepEqual([1, 4, 15].map(studentQuantile), [12.71, 2.776, 2.131])
    for (const [degrees, quantile] of [
      [20, 2.086],
      [60, 2.0],
      [1000, 1.962],
    ] as const)
      assert.ok(Math.abs(studentQuantile(degrees) - quantile) < 0.01, String(degrees))
    assert.ok(studentQuantile(2.5) < studentQuantile(2) && studentQuantile(2.5) > studentQuantile(3))
    const points = [1, 2, 3, 4, 5].map((one) => ({ x: one, y: 10 * one }))
    assert.deepEqual(blockMeans(points, 2), [
      { x: 1.5, y: 15 },
      { x: 3.5, y: 35 },
    ])
  })
})

describe('the listing of the soak', () => {
  it('ignores the history of a set, and compares its entries', () => {
    assert.equal(
      setLine('create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 2048 maxelem 131072 bucketsize 12 initval 0x8'),
      'create KUBE-CLUSTER-IP hash:ip,port family inet',
    )
    assert.equal(setLine('add KUBE-CLUSTER-IP 10.0.0.1,tcp:80'), 'add KUBE-CLUSTER-IP 10.0.0.1,tcp:80')
  })

  it('takes chains in any order and without counters, and rules by their place in their chain', () => {
    const rules = (...lines: readonly string[]): string[] => ruleLines(['*nat', ...lines, 'COMMIT']).toSorted()
    const [a, b] = ['-A A -s 10.0.0.1/32 -j RETURN', '-A A -j DROP']
    const one = rules(':A - [0:0]', ':B - [1:60]', a, b, '-A B -j DROP')
    assert.deepEqual(one, rules(':B - [0:0]', ':A - [0:0]', '-A B -j DROP', a, b))
    assert.notDeepEqual(one, rules(':A - [0:0]', ':B - [1:60]', b, a, '-A B -j DROP'))
    const kept = [':INPUT ACCEPT [0:0]', ':KUBE-FIREWALL - [0:0]', '-A INPUT -j KUBE-FIREWALL']
    assert.deepEqual(rules(...kept), [])
    assert.equal(rules(':INPUT DROP [0:0]').length, 1)
    const jumps = ['-A INPUT -j A', '-A INPUT -j B']
    assert.deepEqual(rules(...jumps), rules(...jumps.toReversed()))
    assert.notDeepEqual(rules(...jumps), rules(...jumps, '-A INPUT -j B'))
  })

  it('takes elements of nftables in any order, and rules by their place', () => {
    const set = (...elem: readonly string[]): object => ({
      set: { family: 'ip', table: 't', name: 's', handle: 4, elem },
    })
    const rule = (handle: number, verdict: string): object => ({
      rule: { family: 'ip', table: 't', chain: 'c', handle, expr: [{ [verdict]: null }] },
    })
    const lines = (...nftables: readonly object[]): string[] =>
      nftLines(JSON.stringify({ nftables: [{ metainfo: { version: '1' } }, ...nftables] })).toSorted()
    const one = lines(set('a', 'b'), rule(7, 'accept'), rule(8, 'drop'))
    assert.equal(one.length, 5)
    assert.deepEqual(one, lines(rule(1, 'accept'), rule(2, 'drop'), set('b', 'a')))
    assert.notDeepEqual(one, lines(set('a', 'b'), rule(7, 'drop'), rule(8, 'accept')))
    assert.notDeepEqual(one, lines(set('a'), rule(7, 'accept'), rule(8, 'drop')))
    const ofIptables = [{ table: { family: 'ip', name: 'nat' } }, { chain: { family: 'ip', table: 'nat', name: 'c' } }]
    assert.deepEqual(lines(...ofIptables), [])
  })

  it('says what is missing and what is extra, twice the same line too, and counts by kind', () => {
    assert.deepEqual(differences(['a', 'b', 'b'], ['b', 'c']), ['missing: a', 'missing: b', 'extra: c'])
    assert.deepEqual(differences(['a', 'b'], ['a', 'b']), [])
    assert.deepEqual(countsOf(['ipvs -A x', 'ipvs -a y', 'ipvs -a z', 'address 10.0.0.1/32']), {
      'ipvs -A': 1,
      'ipvs -a': 2,
      address: 1,
    })
  })
})

describe('the judgement of the soak', () => {
  type Outcome = Parameters<typeof judgeSoak>[0]
  type Checkpoint = Outcome['checkpoints'][number]
  const inside = {
    heapBytes: 20 << 20,
    externalBytes: 0,
    handles: 9,
    timers: 30,
    promises: 0,
    diff: '',
  }
  const checkpoint = (round: number): Checkpoint => ({
    round,
    seconds: round * 30,
    changes: (round + 1) * 10_000,
    anonymousMiB: 50 + (round % ROUNDS_A_CYCLE) / 2,
    descriptors: 30,
    settledMs: 1_000,
    differences: [],
    ...(round % ROUNDS_A_CYCLE === ROUNDS_A_CYCLE - 1 ? { inside } : {}),
  })
  const outcome = (change: (one: Checkpoint, round: number) => Checkpoint = (one) => one): Outcome => ({
    checkpoints: Array.from({ length: 40 }, (_, round) => change(checkpoint(round), round)),
    seconds: 1200,
    changingSeconds: 1000,
    changes: { service: 399_000, zone: 200, address: 400, settings: 300, interruption: 100 },
    lagsMs: [1, 2, 3],
    lostProbes: 0,
    counted: {
      delays: { '0.001': 6, '0.002': 9, '1': 9, '+Inf': 10, count: 10, sum: 0.02 },
      page: 'kubeipvs_operations_total{direction="add",outcome="success",table="x"} 7\nkubeproxy_sync_proxy_rules_endpoint_changes_total 5\n',
    },
    complaints: {},
    objects: {},
  })
  const problems = (change: Parameters<typeof outcome>[0]): readonly string[] => judgeSoak(outcome(change)).problems

  it('has no problem where nothing grows, and says what was made and applied', () => {
    const { problems: none, ...figures } = judgeSoak(outcome())
    assert.deepEqual(none, [])
    assert.equal(figures['changes'], 400_000)
    assert.equal(figures['changesASecond'], 400)
    assert.equal(figures['operations'], 7)
    const { rows } = figures['cycles'] as { readonly rows: readonly unknown[] } // the last checkpoint of each cycle
    assert.equal(rows.length, 10)
    assert.deepEqual(rows[0], [40_000, 51.5, 20, 30, 30])
    assert.equal(figures['endpointChanges'], 5)
    assert.deepEqual(figures['eventLoopDelay'], {
      count: 10,
      meanMs: 2,
      'upTo 0.001 s': 6,
      'upTo 0.002 s': 3,
      'upTo +Inf s': 1,
    })
    assert.deepEqual(figures['lagMs'], { probes: 3, p50: 2, p99: 3, max: 3 })
  })

  it('ignores what grows in the warm-up alone', () => {
    assert.deepEqual(
      problems((one, round) => ({ ...one, anonymousMiB: Math.min(round, 10) })),
      [],
    )
  })

  it('calls growth a problem: of memory, the heap, descriptors and timers', () => {
    const [memory] = problems((one, round) => ({ ...one, anonymousMiB: one.anonymousMiB + round * 0.05 }))
    assert.match(
      memory ?? '',
      /^anonymous memory grows by 5\.00 MiB in a million changes, with 95 % confidence by [45]/,
    )
    const deep = (more: (round: number) => Partial<typeof inside>): readonly string[] =>
      problems((one, round) => (one.inside === undefined ? one : { ...one, inside: { ...inside, ...more(round) } }))
    assert.match(
      deep((round) => ({ heapBytes: (20 << 20) + round * 20_000 }))[0] ?? '',
      /^the heap in equal states grows by 1\.91/,
    )
    assert.deepEqual(
      deep((round) => ({ timers: 30 + round })),
      ['the timers grew from 45 to 69'],
    )
    assert.deepEqual(
      problems((one, round) => ({ ...one, descriptors: 30 + round })),
      ['the descriptors grew from 42 to 69'],
    )
  })

  it('calls a wrong state a problem, which the listing or kube-ipvs diff has found, and a change that never arrived', () => {
    const [wrong] = problems((one, round) => (round === 7 ? { ...one, differences: ['extra: ipvs x'] } : one))
    assert.equal(wrong, 'after 80000 changes the kernel was not as after a start: extra: ipvs x')
    const [odd] = problems((one) =>
      one.inside === undefined ? one : { ...one, inside: { ...inside, diff: 'ipvsadm -D' } },
    )
    assert.match(odd ?? '', /^after \d+ changes kube-ipvs diff found: ipvsadm -D$/)
    assert.deepEqual(judgeSoak({ ...outcome(), lostProbes: 2 }).problems, [
      '2 changes did not reach the kernel within a minute',
    ])
  })

  it('says that a short run has no slope', () => {
    const short = outcome()
    assert.deepEqual(judgeSoak({ ...short, checkpoints: short.checkpoints.slice(0, 8) }).problems, [
      'the run was too short for a slope',
    ])
  })
})
