/** IpsetConnection and the entry table with a simulated kernel, for what a real one cannot be made to do. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { IpsetConnection } from '../../src/ipset/connection.ts'
import { EntryTable } from '../../src/ipset/tables.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { CodedError } from '../../src/values/errors.ts'
import { doneMessage, errorMessage, FakeTransport, hex, message, type Reply, requests } from '../netlink/wire.ts'

const PROTOCOL = 0x601
const LIST = 0x607
const ADD = 0x609

/** A kernel that has protocol 6 to 7 and answers other messages with `answer`'s errno. */
function kernel(answer: (type: number, index: number) => number | Reply[], versions = '07'): FakeTransport {
  return new FakeTransport((datagram): Reply[] =>
    requests(datagram).flatMap(({ type, flags, sequence }, index) => {
      if (type === PROTOCOL)
        return [message(PROTOCOL, 0, sequence, hex(`02000000 05000100 ${versions}000000 05000a00 06000000`))]
      const errno = answer(type, index)
      if (typeof errno !== 'number') return errno
      if (errno !== 0) return [errorMessage(errno, sequence)]
      if ((flags & 0x300) === 0x300) return [doneMessage(0, sequence)]
      return (flags & 4) !== 0 ? [errorMessage(0, sequence)] : []
    }),
  )
}

const open = (transport: FakeTransport): Promise<IpsetConnection> =>
  IpsetConnection.open(new NetlinkConnection(transport, { timeoutMs: 200 }))

function table(ipset: IpsetConnection, lost: string[] = []): EntryTable {
  return new EntryTable(ipset, { families: ['IPv4'], onSetLost: (name) => lost.push(name), onGrown: () => undefined })
}

const add = (entry: string, set = 'KUBE-CLUSTER-IP') => ({ kind: 'add-entry' as const, set, entry })
const signal = new AbortController().signal
const codes = (outcomes: readonly (Error | undefined)[]) =>
  outcomes.map((outcome) => (outcome instanceof CodedError ? outcome.code : outcome))

describe('IpsetConnection', () => {
  it('open rejects with the name of the module on a kernel without ipset, and closes the connection', async () => {
    const transport = new FakeTransport((datagram) =>
      requests(datagram).map(({ sequence }) => errorMessage(22, sequence)),
    )
    await assert.rejects(open(transport), { code: 'ipset-missing', message: /modprobe ip_set/ })
    assert.equal(transport.closed, true)
  })

  it('open rejects a kernel with another protocol', async () => {
    const transport = kernel(() => 0, '06')
    await assert.rejects(open(transport), { code: 'ipset-protocol' })
    assert.equal(transport.closed, true)
  })

  it('errors keep the code of the kernel, and private codes get their names', async () => {
    const ipset = await open(kernel(() => 4100))
    await assert.rejects(ipset.destroy('x'), {
      code: 'IPSET_ERR_BUSY',
      message: 'ipset destroy x: IPSET_ERR_BUSY (the set is in use by a rule or another set)',
    })
    const other = await open(kernel(() => 1))
    await assert.rejects(other.destroy('x'), { code: 'EPERM', message: 'ipset destroy x: EPERM' })
  })

  it('listSets rejects a reply that is no set', async () => {
    const ipset = await open(
      kernel((type) => (type === LIST ? [message(LIST, 2, 2, hex('02000000 05000100 07000000'))] : 0)),
    )
    await assert.rejects(ipset.listSets(), { code: 'netlink-malformed' })
  })

  it('listSets reads only the name of a set that is not ours', async () => {
    // PROTOCOL, SETNAME, TYPENAME x, REVISION, FAMILY, DATA with MAXELEM of one byte.
    const header = (name: string): string => {
      const padded = `${Buffer.from(name).toString('hex')}00`.padEnd(Math.ceil((name.length + 1) / 4) * 8, '0')
      const length = (name.length + 5).toString(16).padStart(2, '0')
      return `02000000 05000100 07000000 ${length}000200 ${padded} 06000300 78000000 05000400 00000000 05000500 02000000`
    }
    const listed = (name: string) => message(LIST, 2, 2, hex(`${header(name)} 0c000780 05001340 01000000`))
    const foreign = await open(kernel((type) => (type === LIST ? [listed('other'), doneMessage(0, 2)] : 0)))
    assert.deepEqual(await foreign.listSets(), [])
    const ours = await open(kernel((type) => (type === LIST ? [listed('KUBE-IPVS-IPS'), doneMessage(0, 2)] : 0)))
    await assert.rejects(ours.listSets(), { code: 'netlink-malformed' })
  })
})

describe('EntryTable', () => {
  it('reports an error for every entry of a missing set after one message, and reports the set as lost', async () => {
    const transport = kernel((type) => (type === ADD ? 2 : 0))
    const lost: string[] = []
    const outcomes = await table(await open(transport), lost).apply(
      ['10.0.0.1,tcp:1', '10.0.0.2,tcp:1'].map((it) => add(it)),
      signal,
    )
    assert.deepEqual([codes(outcomes), lost], [['ENOENT', 'ENOENT'], ['KUBE-CLUSTER-IP']])
    assert.equal(transport.sent.length, 2)
  })

  it('reports an error for all operations of a datagram without an answer', async () => {
    const transport = kernel((type) => (type === ADD ? [] : 0))
    const outcomes = await table(await open(transport)).apply(
      [add('10.0.0.1,tcp:1'), add('80', 'KUBE-NODE-PORT-TCP')],
      signal,
    )
    assert.deepEqual(codes(outcomes), ['netlink-timeout', 'netlink-timeout'])
  })

  it('names errors of bitmaps by the list for bitmaps', async () => {
    const header =
      '02000000 05000100 07000000 06000200 78000000 10000300 6269746d61703a706f727400 05000500 00000000 0c000780 06000440 75300000'
    let sequence = 2
    const transport = kernel((type) => {
      sequence++
      return type === ADD ? 4352 : [message(LIST, 2, sequence - 1, hex(header)), doneMessage(0, sequence - 1)]
    })
    const [outcome] = await table(await open(transport)).apply([add('80', 'KUBE-NODE-PORT-TCP')], signal)
    assert.deepEqual(codes([outcome]), ['IPSET_ERR_BITMAP_RANGE'])
    assert.match(outcome?.message ?? '', /^ipset add KUBE-NODE-PORT-TCP 80: /)
  })

  it('refuses sets of other names without a request', async () => {
    const transport = kernel(() => 0)
    const outcomes = await table(await open(transport)).apply([add('10.0.0.1', 'KUBE-FOREIGN')], signal)
    assert.deepEqual(codes(outcomes), ['ipset-wrong-type'])
    assert.equal(transport.sent.length, 1)
  })

  it('apply rejects only when aborted', async () => {
    const ipset = await open(kernel(() => 0))
    await assert.rejects(table(ipset).apply([add('10.0.0.1,tcp:1')], AbortSignal.abort(new Error('stop'))), /stop/)
    ipset.close()
    assert.deepEqual(codes(await table(ipset).apply([add('10.0.0.1,tcp:1')], signal)), ['netlink-closed'])
  })
})
