/**
 * Requests over a netlink socket: batches with one ACK, single replies, dumps. One exchange at a
 * time, in call order. The kernel answers inside `sendto`, so an exchange normally ends without
 * waiting. A reply counts only when its sequence number belongs to the current exchange; this is
 * how the replies of an abandoned exchange are skipped.
 * @impure
 */
import type { Budget } from '../values/budget.ts'
import { CodedError } from '../values/errors.ts'
import { newBudget } from '../values/event-loop.ts'
import { MAX_BATCH_MESSAGES, type MessageBatch } from './batch.ts'
import { NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN } from './constants.ts'
import { KernelError, netlinkError } from './errors.ts'
import { Exchange, type NetlinkCounters } from './exchange.ts'
import { decodeDone, decodeError, type ReceivedMessage, visitMessages } from './message.ts'
import { type Transport, Turns } from './transport.ts'

/** The result of one message of a batch: undefined is success. */
export type Outcome = KernelError | undefined

export interface CallOptions {
  readonly signal?: AbortSignal | undefined
}

export interface TransactOptions extends CallOptions {
  /**
   * The batch is one transaction, done as a whole or not at all, so that it may have any number of
   * messages: if so many are refused that answers are lost, nothing was done.
   */
  readonly isTransaction?: boolean
}

export interface DumpOptions extends CallOptions {
  /** The event loop runs where its stretch is over. Default: a budget of the dump. */
  readonly budget?: Budget
  /** Called when the dump starts again: what was decoded so far is void. */
  readonly onRestart?: () => void
}

/**
 * Everything that a visitor of a dump visits, as a list; what was visited before the dump started
 * again is left out.
 */
export async function listVisited<T, Options extends DumpOptions>(
  visitAll: (visit: (item: T) => void, options: Options) => Promise<void>,
  options: Options,
): Promise<T[]> {
  let items: T[] = []
  const onRestart = (): void => {
    items = []
    options.onRestart?.()
  }
  await visitAll((item) => void items.push(item), { ...options, onRestart })
  return items
}

/** The most attempts at a dump while the table changes (NLM_F_DUMP_INTR) or replies are lost. */
const MAX_DUMP_ATTEMPTS = 10
const DEFAULT_TIMEOUT_MS = 5_000
/** A dump may last this many times the timeout of one exchange, even if it makes progress. */
const DUMP_TIMEOUT_FACTOR = 12

/** The end of one attempt at a dump: complete, or the reason for another attempt. */
type DumpEnd = 'complete' | Error

export class NetlinkConnection {
  readonly #exchange: Exchange
  readonly #turns = new Turns()

  /** @param options.timeoutMs deadline for the answer to one datagram, default 5,000 */
  constructor(transport: Transport, options: { readonly timeoutMs?: number } = {}) {
    this.#exchange = new Exchange(transport, options.timeoutMs ?? DEFAULT_TIMEOUT_MS)
  }

  /** Messages and datagrams since it was opened. */
  get counters(): Readonly<NetlinkCounters> {
    return this.#exchange.counters
  }

  /** nl_pid of the socket: announcements of changes that this connection makes carry it. */
  get portId(): number {
    return this.#exchange.portId
  }

  /**
   * Sends up to 200 messages in one datagram; the kernel runs them in order and continues after
   * failures. Resolves to one outcome for each message. Rejects when nothing was done (KernelError
   * of `sendto`, `netlink-closed`, abort while queued) or when outcomes are unknown
   * (`netlink-overrun`, `netlink-timeout`, `netlink-truncated`, `netlink-malformed`). The batch
   * must not change until then.
   */
  async transact(batch: MessageBatch, options: TransactOptions = {}): Promise<readonly Outcome[]> {
    const count = batch.count
    const last = batch.lastAcknowledged
    if (count > MAX_BATCH_MESSAGES && options.isTransaction !== true)
      throw netlinkError('netlink-unencodable', `batch of ${count} messages, at most ${MAX_BATCH_MESSAGES}`)
    options.signal?.throwIfAborted()
    if (count === 0) return []
    const turn = this.#turns.take(options.signal)
    if (turn !== undefined) await turn
    try {
      const first = this.#exchange.send(batch, true)
      const outcomes: Outcome[] = new Array(count).fill(undefined)
      let acknowledged = false
      let deadline: number | undefined
      while (!acknowledged) {
        const datagram =
          this.#exchange.receive() ??
          (await this.#exchange.awaitDatagram((deadline ??= this.#exchange.deadline()), options.signal))
        visitMessages(datagram, (message) => {
          const index = (message.sequence - first) >>> 0
          if (index >= count || message.type !== NLMSG_ERROR) return
          const { errno, extendedAck } = decodeError(message)
          if (errno !== 0) outcomes[index] = new KernelError(errno, batch.operation(index), extendedAck)
          // The kernel refuses a whole nfnetlink transaction with an error of its first message.
          const isRefused = errno !== 0 && index === 0 && last < count - 1
          if (index === last || isRefused) acknowledged = true
        })
        if (!acknowledged && performance.now() > (deadline ??= this.#exchange.deadline()))
          throw this.#exchange.timedOut()
      }
      return outcomes
    } finally {
      this.#turns.pass()
    }
  }

  /**
   * Sends one request that has one reply and resolves to the decoded reply. Rejects with the
   * kernel's KernelError, or as `transact` does. An ACK without a reply before it is
   * `netlink-malformed`.
   */
  async request<T>(
    request: MessageBatch,
    decode: (message: ReceivedMessage) => T,
    options: CallOptions = {},
  ): Promise<T> {
    this.#expectOne(request)
    options.signal?.throwIfAborted()
    const turn = this.#turns.take(options.signal)
    if (turn !== undefined) await turn
    try {
      const sequence = this.#exchange.send(request, false)
      const replies: T[] = []
      let deadline: number | undefined
      for (;;) {
        const datagram =
          this.#exchange.receive() ??
          (await this.#exchange.awaitDatagram((deadline ??= this.#exchange.deadline()), options.signal))
        visitMessages(datagram, (message) => {
          if (message.sequence !== sequence || replies.length > 0 || message.type === NLMSG_NOOP) return
          if (message.type === NLMSG_ERROR) {
            const { errno, extendedAck } = decodeError(message)
            if (errno !== 0) throw new KernelError(errno, request.operation(0), extendedAck)
            throw netlinkError('netlink-malformed', `${request.operation(0)}: acknowledged without a reply`)
          }
          if (message.type === NLMSG_DONE || message.type === NLMSG_OVERRUN)
            throw netlinkError(
              'netlink-malformed',
              `${request.operation(0)}: message type ${message.type} instead of a reply`,
            )
          replies.push(decode(message))
        })
        for (const reply of replies) return reply
        if (performance.now() > (deadline ??= this.#exchange.deadline())) throw this.#exchange.timedOut()
      }
    } finally {
      this.#turns.pass()
    }
  }

  /**
   * Reads a whole table (the request must carry NLM_F_DUMP). Resolves to what `decode` returned for
   * each message, without undefined. When the kernel reports that the table changed during the
   * dump, or replies were lost, the dump starts again, up to 10 times (then
   * `netlink-dump-interrupted`, `netlink-overrun` …). Lets the event loop run in between.
   */
  async dump<T>(
    request: MessageBatch,
    decode: (message: ReceivedMessage) => T | undefined,
    options: DumpOptions = {},
  ): Promise<T[]> {
    this.#expectOne(request)
    options.signal?.throwIfAborted()
    const turn = this.#turns.take(options.signal)
    if (turn !== undefined) await turn
    const { budget = newBudget() } = options
    let finished = false
    try {
      // To read the clock is a system call on some kernels, and most dumps are one datagram and the end.
      let deadline: number | undefined
      const lastMoment = (): number => (deadline ??= performance.now() + this.#exchange.timeoutMs * DUMP_TIMEOUT_FACTOR)
      for (let attempt = 1; ; attempt++) {
        const collected: T[] = []
        finished = false
        const end = await this.#dumpOnce(request, decode, collected, budget, lastMoment, options.signal)
        if (end !== 'complete') await this.#exchange.drain(budget)
        finished = true
        if (end === 'complete') return collected
        if (attempt === MAX_DUMP_ATTEMPTS) throw end
        options.onRestart?.()
      }
    } finally {
      // The kernel continues a dump until it is read to its end; its messages must not reach the
      // next request.
      if (!finished) await this.#exchange.drain(budget)
      this.#turns.pass()
    }
  }

  /** Frees the socket. Calls that run or wait reject with `netlink-closed`. Calling it again does nothing. */
  close(): void {
    const closed = netlinkError('netlink-closed', 'the netlink connection is closed')
    this.#turns.close(closed)
    this.#exchange.close(closed)
  }

  async #dumpOnce<T>(
    request: MessageBatch,
    decode: (message: ReceivedMessage) => T | undefined,
    collected: T[],
    budget: Budget,
    deadline: () => number,
    signal: AbortSignal | undefined,
  ): Promise<DumpEnd> {
    const operation = request.operation(0)
    let end: DumpEnd | undefined
    let interrupted = false
    const visit = (message: ReceivedMessage): boolean => {
      if (message.type === NLMSG_NOOP) return true
      if ((message.flags & NLM_F_DUMP_INTR) !== 0 && message.type !== NLMSG_ERROR) interrupted = true
      switch (message.type) {
        case NLMSG_ERROR:
        case NLMSG_DONE: {
          const { errno, extendedAck } = message.type === NLMSG_DONE ? decodeDone(message) : decodeError(message)
          const error = errno === 0 ? undefined : new KernelError(errno, operation, extendedAck)
          if (interrupted || error?.code === 'EINTR')
            end = netlinkError('netlink-dump-interrupted', `${operation}: the table changed while it was read`)
          // EBUSY: the socket still runs a dump that an earlier call abandoned.
          else if (error === undefined || error.code === 'EBUSY') end = error ?? 'complete'
          else throw error
          return false
        }
        case NLMSG_OVERRUN:
          throw netlinkError('netlink-malformed', `${operation}: NLMSG_OVERRUN in a dump`)
        default: {
          const decoded = decode(message)
          if (decoded !== undefined) collected.push(decoded)
          return true
        }
      }
    }
    const sequence = this.#exchange.send(request, false)
    let progressBy: number | undefined
    for (let datagrams = 1; ; datagrams++) {
      let datagram: Uint8Array
      try {
        datagram =
          this.#exchange.receive() ??
          (await this.#exchange.awaitDatagram(Math.min((progressBy ??= this.#exchange.deadline()), deadline()), signal))
      } catch (error) {
        if (error instanceof CodedError && (error.code === 'netlink-overrun' || error.code === 'netlink-truncated'))
          return error
        throw error
      }
      let ours = false
      visitMessages(datagram, (message) => {
        if (message.sequence !== sequence) return true
        ours = true
        return visit(message)
      })
      if (end !== undefined) return end
      if (ours) progressBy = undefined
      if (datagrams > 1) {
        const lastMs = deadline()
        if (performance.now() > Math.min(progressBy ?? lastMs, lastMs)) throw this.#exchange.timedOut()
        if (budget.spent()) await budget.turn()
      }
      signal?.throwIfAborted()
      this.#exchange.throwIfClosed()
    }
  }

  #expectOne(request: MessageBatch): void {
    if (request.count !== 1)
      throw netlinkError('netlink-unencodable', `${request.count} messages where one request is expected`)
  }
}
