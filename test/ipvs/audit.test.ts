import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type AuditOptions, auditVirtualServers } from '../../src/ipvs/audit.ts'
import { type RealServer, type VirtualServer, virtualServerKey } from '../../src/ipvs/types.ts'
import { AuditShare } from '../../src/sync/audit.ts'
import { makeRealServer as real, makeVirtualServer } from '../support/virtual-servers.ts'

/** A service that IPVS finds by a mark of the packet instead of its address. */
const FWMARK_SERVICE = { ...makeVirtualServer(''), fwmark: 7 }

const virtual = (address: string, ...servers: RealServer[]) => makeVirtualServer(address, servers)

/** Keys that an audit doubts when the kernel has one table and the mirror another. */
async function doubted(kernel: readonly VirtualServer[], mirror: readonly VirtualServer[]): Promise<string[]> {
  const live = new Map(mirror.map((server) => [virtualServerKey(server), server]))
  const keys: string[] = []
  let passes = 0
  const ipvs: AuditOptions['ipvs'] = {
    visitServices: async (visit, options) => {
      // A list that was interrupted.
      visit({ kind: 'address', fields: { ...virtual('10.9.9.9'), scheduler: 'sh' } })
      options?.onRestart?.()
      for (const fields of kernel) visit({ kind: 'address', fields })
      visit({ kind: 'fwmark', fields: FWMARK_SERVICE })
    },
    listDestinations: async (id) =>
      (
        kernel.find((server) => !('fwmark' in id) && virtualServerKey(server) === virtualServerKey(id))?.realServers ??
        []
      )
        .toReversed()
        .map((realServer) => ({ realServer, activeConnections: 0, inactiveConnections: 0, persistentConnections: 0 })),
  }
  await auditVirtualServers({
    ipvs,
    mirror: {
      live: (key) => live.get(key),
      liveKeys: () => live.keys(),
      doubt: (some) => {
        keys.push(...some)
      },
    },
    share: new AuditShare({ share: 1, now: () => 0, sleep: async () => undefined }),
    onDoubt: () => passes++,
    signal: new AbortController().signal,
  })
  assert.equal(passes > 0, keys.length > 0)
  return [...new Set(keys)].sort()
}

describe('auditVirtualServers', () => {
  const many = Array.from({ length: 1200 }, (_, index) =>
    virtual(`10.1.${index >> 8}.${index & 255}`, real('1.1.1.1'), real('1.1.1.2')),
  )

  it('doubts nothing when kernel and mirror agree', async () => {
    assert.deepEqual(await doubted(many, structuredClone(many)), [])
  })

  const a = virtual('10.0.0.1', real('1.1.1.1'))
  const rows: readonly [what: string, kernel: readonly VirtualServer[], mirror: readonly VirtualServer[]][] = [
    ['a removed virtual server', [], [a]],
    ['a virtual server that is new', [a], []],
    ['another scheduler', [{ ...a, scheduler: 'lc' }], [a]],
    ['another weight', [virtual('10.0.0.1', real('1.1.1.1', 5))], [a]],
    ['a removed real server', [virtual('10.0.0.1')], [a]],
    ['a real server that is new', [virtual('10.0.0.1', real('1.1.1.1'), real('9.9.9.9'))], [a]],
  ]
  for (const [what, kernel, mirror] of rows)
    it(`doubts only the key of ${what}`, async () => {
      assert.deepEqual(await doubted([...many, ...kernel], [...many, ...mirror]), ['10.0.0.1:80/tcp'])
    })

  it('pays for the lists that it reads: all of a round counts in one budget', async () => {
    const budgets = new Set<unknown>()
    await auditVirtualServers({
      ipvs: {
        visitServices: async (_, options) => void budgets.add(options?.budget),
        listDestinations: async (_, options) => {
          budgets.add(options?.budget)
          return []
        },
      },
      mirror: { live: () => virtual('10.0.0.1'), liveKeys: () => ['a', 'b'].values(), doubt: () => undefined },
      share: new AuditShare({ share: 1, now: () => 0, sleep: async () => undefined }),
      onDoubt: () => undefined,
      signal: new AbortController().signal,
    })
    assert.equal(budgets.size, 1)
    assert.equal(budgets.has(undefined), false)
  })

  it('finds every virtual server of a table that is flushed in the middle of a round, before it rests', async () => {
    const live = new Map(many.map((server) => [virtualServerKey(server), server]))
    const doubts = new Set<string>()
    const doubtsAtRests: number[] = []
    let reads = 0
    let lists = 0
    const isFlushed = (): boolean => reads > 5
    await auditVirtualServers({
      ipvs: {
        visitServices: async (visit) => {
          lists++
          if (!isFlushed()) for (const fields of many) visit({ kind: 'address', fields })
        },
        listDestinations: async (id) => {
          reads++
          const server = isFlushed() || 'fwmark' in id ? undefined : live.get(virtualServerKey(id))
          const counts = { activeConnections: 0, inactiveConnections: 0, persistentConnections: 0 }
          return (server?.realServers ?? []).map((realServer) => ({ realServer, ...counts }))
        },
      },
      mirror: {
        live: (key) => live.get(key),
        liveKeys: () => live.keys(),
        doubt: (some) => some.forEach((key) => doubts.add(key)),
      },
      // Each stretch is over at once and is followed by a rest.
      share: {
        rest: async () => {
          if (isFlushed()) doubtsAtRests.push(doubts.size)
        },
      },
      onDoubt: () => undefined,
      signal: new AbortController().signal,
    })
    assert.equal(doubtsAtRests[0], many.length)
    // A program that removes virtual servers again and again does not make the round longer.
    assert.equal(lists, 2)
  })

  it('ends its round although virtual servers are removed and added again meanwhile', async () => {
    const live = new Map(many.slice(0, 100).map((server) => [virtualServerKey(server), server]))
    let reads = 0
    await auditVirtualServers({
      ipvs: {
        visitServices: async () => undefined,
        listDestinations: async () => {
          const [key, server] = live.entries().next().value ?? []
          if (key !== undefined && server !== undefined && live.delete(key)) live.set(key, server)
          if (++reads > 1000) throw new Error('the round does not end')
          return []
        },
      },
      mirror: { live: (key) => live.get(key), liveKeys: () => live.keys(), doubt: () => undefined },
      share: new AuditShare({ share: 1, now: () => 0, sleep: async () => undefined }),
      onDoubt: () => undefined,
      signal: new AbortController().signal,
    })
    assert.equal(reads, 100)
  })
})
