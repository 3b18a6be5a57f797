/** Operations as transactions, and what a kernel may refuse of them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { KernelError } from '../../src/netlink/errors.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import { TransactionRun } from '../../src/nftables/transaction-run.ts'
import type { NftElement, NftItem, NftOperation } from '../../src/nftables/types.ts'
import { CodedError, MissingFeature } from '../../src/values/errors.ts'
import { errorMessage, FakeTransport, type Reply, requests } from '../netlink/wire.ts'

const [EPERM, ENOENT, EBUSY, EINVAL, EMSGSIZE, EOPNOTSUPP] = [1, 2, 16, 22, 90, 95]
/** Message types inside a transaction. */
const [NEWCHAIN, NEWRULE, NEWSET, NEWSETELEM, DELSETELEM] = [0x0a03, 0x0a06, 0x0a09, 0x0a0c, 0x0a0e]
const GETSET = 0x0a0a
const NLM_F_ACK = 4

interface Sent {
  readonly type: number
  readonly bytes: Buffer
}

/** A kernel that takes a transaction only when `refuses` finds nothing in it. */
class Kernel {
  /** The transactions that were done, each as its messages without begin and end. */
  readonly done: (readonly Sent[])[] = []
  refused = 0
  readonly #refuses: (message: Sent) => number
  readonly #refusesAll: (messages: readonly Sent[]) => number
  readonly transport: FakeTransport

  constructor(refuses: (message: Sent) => number, refusesAll: (messages: readonly Sent[]) => number = () => 0) {
    this.#refuses = refuses
    this.#refusesAll = refusesAll
    this.transport = new FakeTransport((datagram) => this.#answer(datagram))
  }

  #answer(datagram: Uint8Array): Reply[] {
    const headers = requests(datagram)
    // Every set is there.
    const [question] = headers
    if (question?.type === GETSET) return [errorMessage(0, question.sequence)]
    const sent: Sent[] = []
    const replies: Reply[] = []
    let at = 0
    for (const { type, sequence } of headers) {
      const length = Buffer.from(datagram).readUInt32LE(at)
      const message = { type, bytes: Buffer.from(datagram.slice(at, at + length)) }
      at += (length + 3) & ~3
      if (type < 0x0a00) continue
      sent.push(message)
      const errno = this.#refuses(message)
      if (errno !== 0) replies.push(errorMessage(errno, sequence))
    }
    const [first] = headers
    const last = headers.findLast(({ flags }) => (flags & NLM_F_ACK) !== 0)
    const whole = replies.length === 0 ? this.#refusesAll(sent) : 0
    if (whole !== 0 && first !== undefined) replies.push(errorMessage(whole, first.sequence))
    if (replies.length === 0) this.done.push(sent)
    else this.refused++
    // The acknowledged message is answered also when another one is refused.
    if (last !== undefined && whole === 0) replies.push(errorMessage(0, last.sequence))
    return replies
  }

  run(ops: readonly NftOperation[]): Promise<readonly (Error | undefined)[]> {
    const netlink = new NetlinkConnection(this.transport, { timeoutMs: 200 })
    const { signal } = new AbortController()
    return new TransactionRun({ netlink, batch: new MessageBatch(), signal }, ops).outcomes()
  }
}

const element = (index: number, set = 'ports'): NftElement => ({
  kind: 'element',
  family: 'IPv4',
  set,
  value: `10.${index >> 16}.${(index >> 8) & 255}.${index & 255} . tcp . 80`,
})
const elements = (count: number): NftElement[] => Array.from({ length: count }, (_, index) => element(index))
const all = (kind: NftOperation['kind'], items: readonly NftItem[]): NftOperation[] =>
  items.map((item) => ({ kind, item }))
/** Whether a message has this element. */
const has = ({ bytes }: Sent, index: number): boolean =>
  bytes.includes(Buffer.of(10, (index >> 16) & 255, (index >> 8) & 255, index & 255))
const codes = (outcomes: readonly (Error | undefined)[]): Map<number, string> =>
  new Map(outcomes.flatMap((error, index) => (error instanceof CodedError ? [[index, error.code] as const] : [])))

describe('operations on private tables', () => {
  it('are one transaction in the order that the kernel needs, whatever order they came in', async () => {
    const kernel = new Kernel(() => 0)
    const ops: NftOperation[] = [
      { kind: 'delete', item: { kind: 'set', family: 'IPv4', name: 'old', fields: ['daddr'], isMap: false } },
      { kind: 'delete', item: { kind: 'chain', family: 'IPv4', name: 'old', rules: [] } },
      ...all('add', [
        element(1),
        {
          kind: 'chain',
          family: 'IPv4',
          name: 'in',
          hook: { type: 'filter', hook: 'input', priority: 0 },
          rules: [{ statements: [{ kind: 'reject' }] }],
        },
        { kind: 'chain', family: 'IPv4', name: 'c', rules: [{ statements: [{ kind: 'new-connection' }] }] },
        { kind: 'set', family: 'IPv4', name: 'ports', fields: ['daddr', 'l4proto', 'dport'], isMap: false },
        { kind: 'table', family: 'IPv4', isOwned: false },
      ]),
      { kind: 'delete', item: element(2) },
      { kind: 'replace', item: element(3) },
    ]
    assert.deepEqual(codes(await kernel.run(ops)), new Map())
    const [transaction, ...more] = kernel.done
    assert.deepEqual(more, [])
    assert.deepEqual(
      transaction?.map(({ type }) => type),
      // table, set, chains, the rule of c; elements; the rule of in; rules and chain, set that are deleted
      [0x0a00, NEWSET, NEWCHAIN, NEWCHAIN, NEWRULE, DELSETELEM, NEWSETELEM, NEWRULE, 0x0a08, 0x0a05, 0x0a0b],
    )
  })

  it('of a thousand elements share messages, and more are several transactions', async () => {
    const kernel = new Kernel(() => 0)
    await kernel.run(all('add', elements(2500)))
    assert.deepEqual(
      kernel.done.map((messages) => messages.length),
      [2, 2, 1],
    )
  })

  it('of elements that lead to chains with long names have no message that is too long', async () => {
    const kernel = new Kernel(() => 0)
    const chain = 'c'.repeat(255)
    const items = elements(1000).map((item, index): NftElement => {
      const value = `fd00::${index.toString(16)} . tcp . 65535 . fd00::1`
      return { ...item, family: 'IPv6', value, action: { kind: 'jump', chain } }
    })
    assert.deepEqual(codes(await kernel.run(all('add', items))), new Map())
    assert.deepEqual(
      kernel.done.map((messages) => messages.length),
      [6],
    )
  })

  it('fail alone: one refused element among a thousand takes none with it', async () => {
    const kernel = new Kernel((message) => (message.type === NEWSETELEM && has(message, 777) ? EINVAL : 0))
    const outcomes = await kernel.run(all('add', elements(1000)))
    assert.deepEqual(codes(outcomes), new Map([[777, 'EINVAL']]))
    assert.match(
      outcomes[777]?.message ?? '',
      /^nft add element ip kube-ipvs ports '\{ 10\.0\.3\.9 \. tcp \. 80 \}': EINVAL/,
    )
    const added = kernel.done.flat()
    for (const index of [0, 776, 778, 999]) assert.ok(added.some((message) => has(message, index)))
    assert.ok(!added.some((message) => has(message, 777)))
    // A refused transaction waits for all processors.
    assert.ok(kernel.refused <= 3, `${kernel.refused} refused`)
  })

  it('fail alone where the kernel does not say which: they are halved', async () => {
    const bad = [3, 900]
    const kernel = new Kernel(
      () => 0,
      (messages) => (bad.some((index) => messages.some((message) => has(message, index))) ? EINVAL : 0),
    )
    const outcomes = await kernel.run(all('add', elements(1000)))
    assert.deepEqual([...codes(outcomes).keys()], bad)
    for (const index of [0, 4, 899, 999]) assert.ok(kernel.done.flat().some((message) => has(message, index)))
    assert.ok(kernel.refused < 40, `${kernel.refused} refused`)
  })

  it('all fail after some tries when the kernel takes none of them', async () => {
    for (const [errno, most] of [
      [EPERM, 2],
      [EINVAL, 110],
    ] as const) {
      const kernel = new Kernel(
        () => 0,
        () => errno,
      )
      const outcomes = await kernel.run(all('add', elements(2000)))
      assert.equal(codes(outcomes).size, 2000)
      assert.ok(kernel.refused <= most, `${kernel.refused} refused`)
    }
  })

  it('fail alone when one has no bytes', async () => {
    const kernel = new Kernel(() => 0)
    const items = elements(3).map((item, index) => (index === 1 ? { ...item, value: 'nonsense' } : item))
    assert.deepEqual(codes(await kernel.run(all('add', items))), new Map([[1, 'netlink-unencodable']]))
    assert.equal(kernel.done.flat().filter((message) => has(message, 0) || has(message, 2)).length, 2)
  })

  it('that delete what is gone succeed', async () => {
    const kernel = new Kernel((message) => (message.type === DELSETELEM && has(message, 5) ? ENOENT : 0))
    const outcomes = await kernel.run([...all('delete', elements(10)), { kind: 'replace', item: element(5, 'others') }])
    assert.deepEqual(codes(outcomes), new Map())
    assert.ok(kernel.done.flat().some((message) => message.type === NEWSETELEM && has(message, 5)))
  })

  it('of a refused rule leave its chain alone and name the command', async () => {
    const chain: NftItem = {
      kind: 'chain',
      family: 'IPv4',
      name: 'c',
      rules: [{ statements: [{ kind: 'lookup', fields: ['dport'], set: 'gone' }] }],
    }
    const kernel = new Kernel((message) => (message.type === NEWRULE ? ENOENT : 0))
    const outcomes = await kernel.run(all('add', [chain, element(1)]))
    assert.deepEqual(codes(outcomes), new Map([[0, 'ENOENT']]))
    assert.match(outcomes[0]?.message ?? '', /add rule ip kube-ipvs c th dport @gone/)
    assert.deepEqual(
      kernel.done.map((messages) => messages.map(({ type }) => type)),
      [[NEWSETELEM]],
    )
  })

  it('that need a module which is missing say so', async () => {
    for (const [family, statement, module] of [
      ['IPv4', { kind: 'masquerade', isFullyRandom: true }, 'nft_masq'],
      ['IPv4', { kind: 'reject' }, 'nft_reject_ipv4'],
      ['IPv6', { kind: 'reject' }, 'nft_reject_ipv6'],
      ['IPv4', { kind: 'new-connection' }, 'nft_ct'],
      ['IPv4', { kind: 'keep-destination' }, 'nft_nat'],
    ] as const) {
      const kernel = new Kernel((message) => (message.type === NEWRULE ? ENOENT : 0))
      const chain: NftItem = { kind: 'chain', family, name: 'c', rules: [{ statements: [statement] }] }
      const [error] = await kernel.run(all('add', [chain]))
      assert.ok(error instanceof MissingFeature)
      assert.deepEqual([error.code, error.remedy], ['nftables-missing', `module ${module}`])
    }
    const kernel = new Kernel((message) => (message.type === NEWCHAIN ? ENOENT : 0))
    const nat: NftItem = {
      kind: 'chain',
      family: 'IPv4',
      name: 'n',
      hook: { type: 'nat', hook: 'postrouting', priority: 95 },
      rules: [],
    }
    const [error] = await kernel.run(all('add', [nat]))
    assert.match(error?.message ?? '', /chains of type nat.*nft_chain_nat/)
  })

  it('of a rule that names a set or chain, which may be what is missing, blame no module', async () => {
    for (const other of [
      { kind: 'lookup', fields: ['daddr'], set: 'vips' },
      { kind: 'verdict-map', fields: ['daddr'], map: 'vips' },
      { kind: 'verdict', action: { kind: 'goto', chain: 'refuse' } },
    ] as const) {
      const rules = [{ statements: [{ kind: 'new-connection' } as const, other] }]
      const chain: NftItem = { kind: 'chain', family: 'IPv4', name: 'c', rules }
      const refusing = (errno: number) => new Kernel((message) => (message.type === NEWRULE ? errno : 0))
      assert.deepEqual(codes(await refusing(ENOENT).run(all('add', [chain]))), new Map([[0, 'ENOENT']]))
      // The answer of a kernel that has the expression, but not for this chain.
      assert.deepEqual(codes(await refusing(EOPNOTSUPP).run(all('add', [chain]))), new Map([[0, 'nftables-missing']]))
    }
  })

  it('are sent in smaller transactions where a datagram is too long', async () => {
    const kernel = new Kernel(() => 0)
    const send = kernel.transport.send.bind(kernel.transport)
    kernel.transport.send = (bytes) => {
      if (bytes.length > 4096) throw new KernelError(EMSGSIZE, 'sendto')
      send(bytes)
    }
    assert.deepEqual(codes(await kernel.run(all('add', elements(500)))), new Map())
    for (const index of [0, 250, 499]) assert.ok(kernel.done.flat().some((message) => has(message, index)))
  })

  it('have unknown outcomes when the answers are lost', async () => {
    const kernel = new Kernel(() => 0)
    kernel.transport.answer = () => [new KernelError(105, 'recvfrom')]
    assert.deepEqual(
      [...codes(await kernel.run(all('add', elements(2)))).values()],
      ['netlink-overrun', 'netlink-overrun'],
    )
  })

  it('of an element with another verdict are EBUSY, which a replacement is not', async () => {
    const kernel = new Kernel((message) => (message.type === NEWSETELEM ? EBUSY : 0))
    const [error] = await kernel.run(all('add', [{ ...element(1), action: { kind: 'drop' } }]))
    assert.match(error?.message ?? '', /EBUSY \(it is in use, or it is there with another verdict\)/)
  })
})
