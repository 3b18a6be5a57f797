/**
 * A node with very many rules of other programs, which network plug-ins write: the daemon reads
 * them in portions, once a second while someone writes.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { inPortions } from '../../src/iptables/portions.ts'
import { IptablesTable } from '../../src/iptables/table.ts'
import { IPVS_LAYOUT } from '../../src/modes/leftovers/layouts.ts'

const COUNT = 100_000
const CHAINS = 500

/** Rules as Calico writes them, in `filter` and in `nat`, and a jump of ours behind them. */
function text(): string {
  const chains = Array.from({ length: CHAINS }, (_, index) => `:cali-fw-${index} - [0:0]`)
  const rules = Array.from({ length: COUNT }, (_, index) => {
    const match = `-s 10.${index & 255}.${(index >> 8) & 255}.0/24 -p tcp -m comment --comment "cali:${index}"`
    return `-A cali-fw-${index % CHAINS} ${match} -m set --match-set cali40s:${index} src -m multiport --dports 80,443 -j MARK --set-xmark 0x10000/0x10000`
  })
  const table = (name: string, ...own: readonly string[]): readonly string[] => [
    `*${name}`,
    ':OUTPUT ACCEPT [0:0]',
    ':KUBE-SERVICES - [0:0]',
    ...chains,
    ...rules,
    ...own,
    'COMMIT',
  ]
  const jump = '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'
  return [
    ...table('filter'),
    ...table('nat', `-A OUTPUT ${jump}`, '-A OUTPUT -s 10.0.0.1/32 -j KUBE-SERVICES'),
    '',
  ].join('\n')
}

describe('very many rules of other programs', () => {
  it('are read in portions, and what is ours among them is found', async (t) => {
    const saved = text()
    const programs = {
      save: async () => saved,
      restore: () => Promise.reject(new Error('nothing is written')),
    }
    const table = new IptablesTable('IPv4', programs, IPVS_LAYOUT)
    let isReading = true
    const reading = table.list('all', new AbortController().signal).finally(() => (isReading = false))
    let turns = 0
    let longestMs = 0
    for (; isReading; turns++) {
      const before = process.threadCpuUsage()
      await nextTurn()
      const { user, system } = process.threadCpuUsage(before)
      longestMs = Math.max(longestMs, (user + system) / 1000)
    }
    const items = await reading
    assert.deepEqual([...items.keys()], ['nat KUBE-SERVICES', 'filter KUBE-SERVICES', 'nat OUTPUT KUBE-SERVICES'])
    t.diagnostic(`${turns} turns, ${longestMs} ms in the longest, with the garbage collector`)
    // Without portions it would be a few.
    assert.ok(turns >= 20, `${turns} turns`)
  })
})

describe('inPortions', () => {
  it('gives others their turn when a portion has lasted long enough, and takes all items in order', async () => {
    let nowMs = 0
    const taken: number[] = []
    const turns: number[] = []
    const items = Array.from({ length: 1000 }, (_, index) => index)
    const take = (item: number): void => {
      taken.push(item)
      nowMs += 0.02
    }
    let isOver = false
    const work = inPortions(items, take, new AbortController().signal, () => nowMs).finally(() => (isOver = true))
    while (!isOver) {
      turns.push(taken.length)
      await nextTurn()
    }
    await work
    assert.deepEqual(taken, items)
    // 2 ms are 100 items, and the clock is read for every 64th.
    assert.deepEqual([...new Set(turns)], [128, 256, 384, 512, 640, 768, 896])
  })

  it('ends between two portions when it is aborted', async () => {
    const abort = new AbortController()
    let taken = 0
    function* endless(): Generator<number> {
      for (;;) yield taken
    }
    const work = inPortions(
      endless(),
      () => taken++,
      abort.signal,
      () => taken,
    )
    await nextTurn()
    abort.abort(new Error('stopped'))
    await assert.rejects(work, /stopped/)
  })
})
