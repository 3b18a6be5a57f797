/** Reading private tables from kernels that change meanwhile, lose answers or leave elements out. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type MessageBatch, requestOf } from '../../src/netlink/batch.ts'
import { visitMessages } from '../../src/netlink/message.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { encodeNewChain, encodeRule } from '../../src/nftables/chain-codec.ts'
import { encodeElements } from '../../src/nftables/element-codec.ts'
import { ExpressionEncoder, NETWORK_HEADER } from '../../src/nftables/expression-codec.ts'
import { PrivateTableReader } from '../../src/nftables/reader.ts'
import { PrivateTables } from '../../src/nftables/private-table.ts'
import { encodeNewSet } from '../../src/nftables/set-codec.ts'
import { encodeNewTable } from '../../src/nftables/table-codec.ts'
import type { NftChain, NftElement, NftSet } from '../../src/nftables/types.ts'
import { beginNft } from '../../src/nftables/wire.ts'
import { doneMessage, errorMessage, FakeTransport, message, type Reply, requests } from '../netlink/wire.ts'
import { overrun } from '../netlink/one-byte-messages.ts'

const [ENOENT, EINVAL, EINTR] = [2, 22, 4]
const [NEWTABLE, NEWCHAIN, NEWRULE, NEWSET, NEWSETELEM] = [0x0a00, 0x0a03, 0x0a06, 0x0a09, 0x0a0c]
const [GETTABLE, GETCHAIN, GETRULE, GETSET, GETSETELEM] = [0x0a01, 0x0a04, 0x0a07, 0x0a0a, 0x0a0d]
const [NLM_F_MULTI, NLM_F_DUMP_INTR] = [2, 0x10]
const { signal } = new AbortController()

const PORTS: NftSet = { kind: 'set', family: 'IPv4', name: 'ports', fields: ['dport'], isMap: false }
const CHAIN: NftChain = { kind: 'chain', family: 'IPv4', name: 'c', rules: [] }
const NETWORKS = { kind: 'networks', field: 'saddr', cidrs: ['10.0.0.0/8', '192.0.2.7'] } as const
const port = (value: number): NftElement => ({ kind: 'element', family: 'IPv4', set: 'ports', value: String(value) })
const ports = (from: number, to: number): NftElement[] =>
  Array.from({ length: to - from }, (_, index) => port(from + index))

/** What our encoder writes as its last message of a type, as the kernel sends it. */
function row(sequence: number, type: number, encode: (batch: MessageBatch) => void, flags = NLM_F_MULTI): Uint8Array {
  let found = new Uint8Array()
  visitMessages(requestOf(encode).bytes.slice(), (each) => {
    if (each.type === type) found = each.bytes.slice(each.start, each.end)
  })
  assert.ok(found.length > 0)
  return message(type, flags, sequence, found)
}

const elementRow = (sequence: number, elements: readonly NftElement[], flags?: number): Uint8Array =>
  row(sequence, NEWSETELEM, (batch) => encodeElements(batch, 'NEWSETELEM', 'IPv4', 'ports', elements), flags)

/** A set with NFTA_SET_COUNT, which older kernels do not send. */
function setRow(sequence: number, count: number | undefined): Uint8Array {
  return row(sequence, NEWSET, (batch) => {
    encodeNewSet(batch, PORTS)
    if (count === undefined) return
    batch.begin(NEWSET, 0, 'NEWSET').header(4)
    batch.u32be(20, count)
    batch.end()
  })
}

/** A message of a rule that looks addresses up in the set __set%d, or of the elements of that set. */
const ruleRow = (sequence: number, type: number): Uint8Array =>
  row(sequence, type, (batch) => encodeRule(batch, 'IPv4', 'c', { statements: [NETWORKS] }, 1))

/** NFT_MSG_NEWRULE that looks the first register up in a set after it loaded the source address. */
function encodeLookup(batch: MessageBatch, set: string): void {
  beginNft(batch, 'NEWRULE', 0, 'IPv4', 'kube-ipvs')
  batch.string(2, 'c')
  const list = batch.nest(4)
  const encoder = new ExpressionEncoder(batch)
  encoder.loadPayload(NETWORK_HEADER, 12, 4)
  encoder.lookup(set)
  batch.endNest(list)
  batch.end()
}

/** NFT_MSG_NEWSETELEM of an element whose key has so many bytes. */
function encodeKeyOf(batch: MessageBatch, set: string, length: number): void {
  beginNft(batch, 'NEWSETELEM', 0, 'IPv4', 'kube-ipvs')
  batch.string(2, set)
  const nests = [3, 1, 1].map((type) => batch.nest(type))
  batch.binary(1, new Uint8Array(length).fill(22))
  for (const nest of nests.toReversed()) batch.endNest(nest)
  batch.end()
}

/** A reader whose kernel answers by the type of the request, and how often it was asked for each. */
function reader(answer: (type: number, sequence: number, times: number) => readonly Reply[]) {
  const asked = new Map<number, number>()
  const transport = new FakeTransport((datagram) =>
    requests(datagram).flatMap(({ type, sequence }) => {
      const times = (asked.get(type) ?? 0) + 1
      asked.set(type, times)
      return answer(type, sequence, times)
    }),
  )
  const netlink = new NetlinkConnection(transport, { timeoutMs: 200 })
  return { netlink, asked, reader: new PrivateTableReader(netlink, { signal }) }
}

describe('the elements of a set', () => {
  it('are read again when the table changed meanwhile', async () => {
    for (const interrupted of [
      (sequence: number) => [elementRow(sequence, [port(9)], NLM_F_MULTI | NLM_F_DUMP_INTR), doneMessage(0, sequence)],
      (sequence: number) => [elementRow(sequence, [port(9)]), doneMessage(EINTR, sequence)],
    ]) {
      const { reader: one, asked } = reader((_, sequence, times) =>
        times < 3 ? interrupted(sequence) : [elementRow(sequence, [port(1)]), doneMessage(0, sequence)],
      )
      assert.deepEqual(await one.elements(PORTS), [port(1)])
      assert.equal(asked.get(GETSETELEM), 3)
    }
  })

  it('cannot be read when it changes without end', async () => {
    const { reader: one } = reader((_, sequence) => [doneMessage(EINTR, sequence)])
    await assert.rejects(one.elements(PORTS), { code: 'netlink-dump-interrupted' })
  })

  it('are read again when answers were lost', async () => {
    const { reader: one } = reader((_, sequence, times) =>
      times === 1
        ? [elementRow(sequence, [port(9)]), overrun()]
        : [elementRow(sequence, [port(1)]), doneMessage(0, sequence)],
    )
    assert.deepEqual(await one.elements(PORTS), [port(1)])
  })

  it('that a dump left out, or listed twice, are read again, also without a count', async () => {
    for (const count of [200, undefined]) {
      const { reader: one, asked } = reader((type, sequence, times) => {
        if (type === GETSET) return [setRow(sequence, count)]
        const elements = times === 1 ? [...ports(0, 150), ...ports(0, 50)] : ports(0, 200)
        return [elementRow(sequence, elements), doneMessage(0, sequence)]
      })
      assert.equal((await one.elements(PORTS)).length, 200)
      assert.equal(asked.get(GETSETELEM), 2)
    }
  })

  it('cannot be read when no dump has all that the kernel counts, as it does while others change them', async () => {
    const { reader: one, asked } = reader((type, sequence) =>
      type === GETSET
        ? [setRow(sequence, 200)]
        : [elementRow(sequence, [...ports(0, 150), ...ports(0, 50)]), doneMessage(0, sequence)],
    )
    await assert.rejects(one.elements(PORTS), { code: 'netlink-dump-interrupted' })
    assert.equal(asked.get(GETSETELEM), 5)
  })

  it('are whole with one that stands for every value, which the kernel does not count', async () => {
    const { reader: one, asked } = reader((type, sequence) =>
      type === GETSET
        ? [setRow(sequence, 150)]
        : [elementRow(sequence, [...ports(0, 150), { ...port(0), value: '*' }]), doneMessage(0, sequence)],
    )
    assert.equal((await one.elements(PORTS)).length, 151)
    assert.equal(asked.get(GETSETELEM), 1)
  })

  it('are what was listed where the kernel does not count and one is always listed twice', async () => {
    const { reader: one } = reader((type, sequence) =>
      type === GETSET
        ? [setRow(sequence, undefined)]
        : [elementRow(sequence, [...ports(0, 150), port(3)]), doneMessage(0, sequence)],
    )
    assert.equal((await one.elements(PORTS)).length, 150)
  })

  it('that the last of five dumps has are read', async () => {
    const { reader: one } = reader((type, sequence, times) => {
      if (type === GETSET) return [setRow(sequence, 200)]
      return [elementRow(sequence, times < 5 ? ports(0, 150) : ports(0, 200)), doneMessage(0, sequence)]
    })
    assert.equal((await one.elements(PORTS)).length, 200)
  })

  it('are none when the set or the table is gone, and none of a foreign set', async () => {
    const { reader: one, asked } = reader((_, sequence) => [errorMessage(ENOENT, sequence)])
    assert.deepEqual(await one.elements(PORTS), [])
    assert.equal(await one.element(PORTS, '80'), undefined)
    const before = asked.size
    assert.deepEqual(await one.elements({ ...PORTS, isForeign: true }), [])
    assert.equal(asked.size, before)
  })
})

describe('chains', () => {
  /** A rule that names an anonymous set, and a kernel in which that set is gone `times` times. */
  function gone(howOften: number) {
    return reader((type, sequence, times) => {
      if (type === GETCHAIN)
        return [row(sequence, NEWCHAIN, (batch) => encodeNewChain(batch, CHAIN)), doneMessage(0, sequence)]
      if (type === GETRULE) return [ruleRow(sequence, NEWRULE), doneMessage(0, sequence)]
      assert.equal(type, GETSETELEM)
      return times <= howOften
        ? [errorMessage(ENOENT, sequence)]
        : [ruleRow(sequence, NEWSETELEM), doneMessage(0, sequence)]
    })
  }

  it('are read again when the networks of a rule are gone', async () => {
    const { reader: one, asked } = gone(2)
    const [chain] = await one.chains('IPv4')
    assert.deepEqual(chain?.rules, [{ statements: [NETWORKS] }])
    assert.equal(asked.get(GETRULE), 3)
  })

  it('have foreign rules where another program looks something else up in a set without a name', async () => {
    // A protocol, a port, no type that there is, a port and a protocol, an address of IPv6.
    for (const length of [1, 2, 3, 8, 16]) {
      const { netlink } = reader((type, sequence) => {
        const rows = new Map([
          [GETTABLE, () => row(sequence, NEWTABLE, (batch) => encodeNewTable(batch, 'IPv4', false))],
          [GETCHAIN, () => row(sequence, NEWCHAIN, (batch) => encodeNewChain(batch, CHAIN))],
          [GETRULE, () => row(sequence, NEWRULE, (batch) => encodeLookup(batch, '__set0'))],
          [GETSETELEM, () => row(sequence, NEWSETELEM, (batch) => encodeKeyOf(batch, '__set0', length))],
        ])
        const one = rows.get(type)?.()
        return [...(one === undefined ? [] : [one]), doneMessage(0, sequence)]
      })
      const found = await new PrivateTables(netlink, { families: ['IPv4'] }).list('all', signal)
      const chain = found.get('ip chain c')
      assert.ok(chain?.kind === 'chain')
      assert.deepEqual(
        chain.rules.map(({ statements }) => statements.map(({ kind }) => kind)),
        [['foreign', 'foreign']],
        `${length} bytes`,
      )
    }
  })

  it('cannot be read when they change without end', async () => {
    await assert.rejects(gone(100).reader.chains('IPv4'), { code: 'netlink-dump-interrupted' })
  })
})

describe('sets and chains of other programs', () => {
  it('are read by their keys, whatever characters their names have', async () => {
    const set: NftSet = { ...PORTS, name: 'x  y . z' }
    const chain: NftChain = { ...CHAIN, name: "a b; c'" }
    const { netlink, asked } = reader((type, sequence) => {
      if (type === GETTABLE)
        return [row(sequence, NEWTABLE, (batch) => encodeNewTable(batch, 'IPv4', false)), doneMessage(0, sequence)]
      if (type === GETSET) return [row(sequence, NEWSET, (batch) => encodeNewSet(batch, set)), doneMessage(0, sequence)]
      if (type === GETCHAIN)
        return [row(sequence, NEWCHAIN, (batch) => encodeNewChain(batch, chain)), doneMessage(0, sequence)]
      return [doneMessage(0, sequence)]
    })
    const tables = new PrivateTables(netlink, { families: ['IPv4'] })
    const found = await tables.list('all', signal)
    assert.deepEqual([...found.keys()], ['ip', 'ip set x  y . z', "ip chain a b; c'"])
    // The keys of its elements would name another set.
    assert.equal(asked.get(GETSETELEM), undefined)
    assert.deepEqual(await tables.list([...found.keys()], signal), found)
  })
})

describe('a kernel without nf_tables, or without it for a family', () => {
  const [EOPNOTSUPP, EPERM] = [95, 1]
  /** Both ways to read everything, on a kernel that refuses to. */
  const readings = (errno: number): Promise<unknown>[] => {
    const { netlink } = reader((type, sequence) => (type === GETTABLE ? [errorMessage(errno, sequence)] : []))
    const tables = new PrivateTables(netlink, { families: ['IPv6'] })
    return [tables.list('all', signal), tables.visit(() => undefined, { signal })]
  }

  it('is named, with its module', async () => {
    for (const [errno, message] of [
      [EINVAL, /has no nf_tables: load/],
      [EOPNOTSUPP, /has no nf_tables for IPv6: load/],
    ] as const)
      for (const reading of readings(errno))
        await assert.rejects(reading, { code: 'nftables-missing', remedy: 'module nf_tables', message })
  })

  it('is not blamed for another refusal', async () => {
    for (const reading of readings(EPERM)) await assert.rejects(reading, { code: 'EPERM' })
  })
})
