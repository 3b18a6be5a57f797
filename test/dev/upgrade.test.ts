/**
 * The evidence of upgrades without its guests: journeys, names of kernel objects, promises, rows,
 * and what is not to be had.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { counted, more, objectsOf, type Printed } from '../../dev/evidence/upgrade/objects.ts'
import { GROUPS, MODES, nameOf, type Proxy, RELEASES } from '../../dev/evidence/upgrade/proxies.ts'
import { olderKubeIpvs } from '../../dev/evidence/upgrade/older.ts'
import { isReload, pairsOf, problemsOf, rowOf, type Step, summaryOf } from '../../dev/evidence/upgrade/rows.ts'

const ours: Proxy = { program: 'kube-ipvs', release: 'HEAD', mode: 'ipvs' }
const theirs: Proxy = { program: 'kube-proxy', release: '1.37.2', mode: 'iptables' }
const step: Step = {
  node: 0,
  from: theirs,
  to: ours,
  isCleanup: false,
  established: { open: 60, lost: 0, longestMs: 40 },
  fresh: { made: 500, failed: 0, slow: 0, longestMs: 70 },
  heldMs: 20,
  followsMs: 300,
  leftovers: [],
  missing: [],
  failures: [],
}
const nothing: Printed = { ip: '', ip6: '', sets: '', servers: '', addresses: '', tables: '' }

describe('the journeys', () => {
  const steps = GROUPS.flatMap(({ journeys }) => journeys).flatMap(pairsOf)

  it('take every release of kube-proxy in every mode to kube-ipvs and back', () => {
    for (const release of RELEASES)
      for (const mode of MODES) {
        const proxy = nameOf({ program: 'kube-proxy', release, mode })
        const isOurs = ({ program, release: of }: Proxy): boolean => program === 'kube-ipvs' && of === 'HEAD'
        assert.ok(
          steps.some(({ from, to }) => nameOf(from) === proxy && isOurs(to)),
          `from ${proxy}`,
        )
        assert.ok(
          steps.some(({ from, to }) => nameOf(to) === proxy && isOurs(from)),
          `to ${proxy}`,
        )
      }
  })

  it('have what runs on each node as the start of its next step', () => {
    const journey = {
      nodes: 2,
      first: theirs,
      moves: [ours, ours, theirs].map((to, index) => ({ node: index % 2, to })),
    }
    assert.deepEqual(
      pairsOf(journey).map(({ node, from, to }) => [node, nameOf(from), nameOf(to)]),
      [
        [0, nameOf(theirs), nameOf(ours)],
        [1, nameOf(theirs), nameOf(ours)],
        [0, nameOf(ours), nameOf(theirs)],
      ],
    )
  })

  it('tell a running kube-ipvs of another mode, and start every other program', () => {
    const pair = { ...step, from: ours, to: { ...ours, mode: 'iptables' as const } }
    assert.equal(isReload(pair), true)
    assert.equal(isReload({ ...pair, isCleanup: true }), false)
    assert.equal(isReload({ ...pair, to: { ...ours, release: 'aa7996b9' } }), false)
    assert.equal(isReload({ ...pair, from: theirs, to: theirs }), false)
  })
})

describe('the names of kernel objects', () => {
  it('are chains, jumps of the kernel to them, sets, servers, addresses and tables of a proxy, and nothing else', () => {
    const printed: Printed = {
      ...nothing,
      ip: '*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:OTHER - [0:0]\n:KUBE-FIREWALL - [0:0]\n-A INPUT -j KUBE-FIREWALL\n-A PREROUTING -m comment --comment "x" -j KUBE-SERVICES\n-A KUBE-SERVICES -j KUBE-MARK-MASQ\n-A PREROUTING -j OTHER\nCOMMIT\n',
      ip6: '*filter\n:KUBE-FORWARD - [0:0]\nCOMMIT\n',
      sets: 'KUBE-CLUSTER-IP\nother\n',
      servers: '-A -t 10.96.0.1:443 -s rr\n-a -t 10.96.0.1:443 -r 10.244.0.1:443 -m -w 1\n',
      addresses: '7: kube-ipvs0    inet 10.96.0.1/32 scope global kube-ipvs0\n',
      tables: 'table ip nat\ntable ip kube-proxy\ntable ip6 kube-ipvs\n',
    }
    assert.deepEqual(
      [...objectsOf(printed)],
      [
        'chain ip nat KUBE-SERVICES',
        'jump ip nat PREROUTING KUBE-SERVICES',
        'chain ip6 filter KUBE-FORWARD',
        'set KUBE-CLUSTER-IP',
        'server -t 10.96.0.1:443',
        'address 10.96.0.1/32',
        'table ip kube-proxy',
        'table ip6 kube-ipvs',
      ],
    )
    assert.deepEqual([...objectsOf(nothing)], [])
  })

  it('are compared and counted by kind', () => {
    const names = more(new Set(['set b', 'set a', 'address 10.96.0.1/32', 'chain x']), new Set(['chain x']))
    assert.deepEqual(names, ['address 10.96.0.1/32', 'set a', 'set b'])
    assert.equal(counted(names), '1 address, 2 sets')
    assert.equal(counted(['address a', 'address b']), '2 addresses')
    assert.equal(counted([]), 'none')
  })
})

describe('the rows', () => {
  const bad: Step = {
    ...step,
    established: { open: 60, lost: 2, longestMs: 10_000 },
    fresh: { made: 500, failed: 3, slow: 1, longestMs: 900 },
    leftovers: ['set KUBE-A'],
    missing: ['server -t 10.96.0.1:443'],
  }

  it('have a problem for each broken promise', () => {
    assert.deepEqual(problemsOf(step), [])
    assert.deepEqual(
      problemsOf(bad).map((problem) => problem.replace(/.*: /, '')),
      ['2 of 60 established lost', '3 of 500 new ones failed', '1 set', '1 server'],
    )
    assert.match(problemsOf({ ...bad, heldMs: 5_000 }).join(), /failed \(this machine held the guest for 5000 ms\)/)
  })

  it('have no problem where nothing is promised: what kube-proxy leaves, and connections that it or a cleanup ends', () => {
    const back = { ...step, from: ours, to: theirs, leftovers: ['set KUBE-A'] }
    assert.deepEqual(problemsOf(back), [])
    const switched = { ...back, to: { ...ours, mode: 'iptables' as const } }
    assert.deepEqual(problemsOf(switched), [])
    const cleanup = { ...bad, to: theirs, isCleanup: true, leftovers: [], missing: [] }
    assert.deepEqual(problemsOf(cleanup), [])
    const flushing = { ...bad, from: ours, to: { ...theirs, mode: 'nftables' as const }, missing: [] }
    assert.deepEqual(problemsOf(flushing), [])
    assert.equal(problemsOf({ ...flushing, from: { ...ours, mode: 'iptables' } }).length, 1)
    assert.equal(problemsOf({ ...cleanup, leftovers: ['set KUBE-A'] }).length, 1)
  })

  it('say from what to what, what is promised, and the longest pause', () => {
    const { from, to, promised, longestPauseMs, leftovers } = rowOf(bad) as Record<string, unknown>
    assert.deepEqual(
      { from, to, promised, longestPauseMs, leftovers },
      {
        from: 'kube-proxy 1.37.2 iptables',
        to: 'kube-ipvs HEAD ipvs',
        promised: ['established', 'fresh', 'noLeftovers'],
        longestPauseMs: 10_000,
        leftovers: '1 set',
      },
    )
  })

  it('are summed up over the releases', () => {
    const other = { ...bad, from: { ...theirs, release: '1.36.3' } }
    assert.deepEqual(summaryOf([step, other]), {
      'kube-proxy iptables to kube-ipvs HEAD ipvs':
        '2 steps; 2 of 120 established lost; 3 of 1,000 new failed; longest pause 10000 ms; left over: none or 1 set',
    })
  })
})

describe('a program that is not to be had', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-upgrade-test-'))
  after(() => rmSync(folder, { recursive: true }))

  it('is unmet: a commit that the checkout does not have', async () => {
    await assert.rejects(olderKubeIpvs('0123456789', folder), /^Error: this checkout has no commit 0123456789: /)
  })
})
