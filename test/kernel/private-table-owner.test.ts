/**
 * Private tables that belong to a socket, on a real kernel: they survive what empties the others, one
 * process hands them to the next, and a trial says whether the kernel can do that.
 */
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { openNetfilter } from '../../native/open.ts'
import type { NetlinkConnection } from '../../src/netlink/connection.ts'
import { PrivateTables } from '../../src/nftables/private-table.ts'
import { tryPrivateTable } from '../../src/nftables/trial.ts'
import type { NftChain } from '../../src/nftables/types.ts'
import { sh } from '../support/programs.ts'
import { needs } from './needs.ts'
import { freshKernel } from './private-table-kernel.ts'
import { all, codeOf, differences, element, privateTables } from './private-table-items.ts'

const FAMILIES = ['IPv4', 'IPv6'] as const
const { signal } = new AbortController()

const kernel = freshKernel()

describe('a private table that belongs to a socket', needs('nft', 'kernel>=6.9'), () => {
  const owned = { kind: 'table', family: 'IPv4', isOwned: true } as const
  const others: NetlinkConnection[] = []
  afterEach(() => {
    for (const one of others.splice(0)) one.close()
  })
  function another(): PrivateTables {
    const connection = openNetfilter()
    others.push(connection)
    return new PrivateTables(connection, { families: ['IPv4'] })
  }

  it('survives `nft flush ruleset`, and nobody else can change it', async () => {
    const wanted = privateTables('IPv4', true)
    await kernel.apply(...all('add', wanted))
    sh('nft add table ip other; nft flush ruleset')
    assert.equal(sh('nft list tables').trim(), 'table ip kube-ipvs')
    assert.deepEqual(differences(wanted, await kernel.tables.list('all', signal)), [])
    const [error] = await another().apply(all('add', [element('ports', '192.0.2.1 . tcp . 1')]), signal)
    assert.equal(codeOf(error), 'nftables-owned')
    assert.match(error?.message ?? '', new RegExp(`port id ${kernel.netlink.portId}`))
  })

  it('refuses thousands of changes of another socket at once', async () => {
    await kernel.apply(...all('add', privateTables('IPv4', true)))
    const connection = openNetfilter()
    others.push(connection)
    const elements = Array.from({ length: 20_000 }, (_, index) => element('ports', `192.0.2.1 . tcp . ${index}`))
    const more = privateTables('IPv6')
    const outcomes = await new PrivateTables(connection, { families: FAMILIES }).apply(
      all('add', [...elements, ...more]),
      signal,
    )
    assert.equal(outcomes.filter((error) => codeOf(error) === 'nftables-owned').length, elements.length)
    assert.equal(outcomes.filter((error) => error === undefined).length, more.length)
    const { messagesSent } = connection.counters
    assert.ok(messagesSent < 200, `${messagesSent} messages`)
  })

  it('is taken over by another socket when its own is closed, with all its content', async () => {
    await kernel.apply(...all('add', privateTables('IPv4', true)))
    const heir = another()
    assert.deepEqual((await heir.list(['ip'], signal)).get('ip'), {
      ...owned,
      isOwned: false,
      takenBy: kernel.netlink.portId,
    })
    assert.equal(codeOf((await heir.apply([{ kind: 'replace', item: owned }], signal))[0]), 'nftables-owned')
    kernel.netlink.close()
    assert.deepEqual((await heir.list(['ip'], signal)).get('ip'), { ...owned, isOwned: false })
    assert.deepEqual(await heir.apply([{ kind: 'replace', item: owned }], signal), [undefined])
    assert.deepEqual(differences(privateTables('IPv4', true), await heir.list('all', signal)), [])
  })

  it('becomes one, and plain again, with all its content', async () => {
    // More messages than a batch of other subsystems may have.
    const chains = Array.from({ length: 300 }, (_, index): NftChain => {
      return { kind: 'chain', family: 'IPv4', name: `ranges-${index}`, rules: [{ statements: [{ kind: 'reject' }] }] }
    })
    const elements = Array.from({ length: 3000 }, (_, index) => element('ports', `192.0.2.1 . udp . ${index + 1}`))
    const content = [...chains, ...elements]
    await kernel.apply(...all('add', [...privateTables('IPv4'), ...content]))
    await kernel.apply({ kind: 'replace', item: owned })
    assert.deepEqual(
      differences([...privateTables('IPv4', true), ...content], await kernel.tables.list('all', signal)),
      [],
    )
    await kernel.apply({ kind: 'replace', item: { ...owned, isOwned: false } })
    assert.deepEqual(differences([...privateTables('IPv4'), ...content], await kernel.tables.list('all', signal)), [])
    sh('nft flush ruleset')
    assert.equal((await kernel.tables.list('all', signal)).size, 0)
  })
})

describe('a trial of private tables', needs('nft'), () => {
  it('finds all that they need, and leaves nothing behind', async () => {
    const { lacks, mayOwn } = await tryPrivateTable(
      kernel.netlink,
      FAMILIES.flatMap((family) => privateTables(family)),
      { signal },
    )
    assert.equal(lacks, undefined)
    const [table] = await kernel.tables.apply(all('add', [{ kind: 'table', family: 'IPv4', isOwned: true }]), signal)
    assert.equal(mayOwn, table === undefined)
    assert.doesNotMatch(sh('nft list tables'), /trial/)
  })
})
