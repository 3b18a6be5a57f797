/**
 * What `kube-ipvs explain` predicts for requests in a cluster, in the words of `Cluster.ask`, and
 * the comparison with what happened. The comparison comes after all requests, so that it slows none
 * of them, and before anything in the kernel changes.
 */
import assert from 'node:assert/strict'
import type { Outcome as PathOutcome, Packet, PacketPath, PathStep } from '../../src/explain/types.ts'
import { openLook } from '../../src/modes/look/look.ts'
import { PacketReader } from '../../src/modes/look/packet-reader.ts'
import { familyOf } from '../../src/values/address.ts'
import { sameList } from '../../src/values/lists.ts'
import { ADDRESSES, type Comparison, type From, type Outcome } from './cluster.ts'
import { deadline } from './deadline.ts'
import type { Place } from './net-namespace.ts'

const READ_MS = 60_000
/** Wrong predictions that are shown with their paths. */
const MAX_PATHS = 3

/** Whose addresses these are: `a` for 10.244.0.1. */
const OWNERS: ReadonlyMap<string, string> = new Map(
  Object.entries(ADDRESSES).flatMap(([name, addresses]) => Object.values(addresses).map((address) => [address, name])),
)

interface Request {
  readonly from: From
  readonly to: Place
  readonly address: string | undefined
  readonly happened: Set<Outcome>
  /** All outcomes that are possible, if the test knows them. */
  only?: readonly Outcome[]
  /** Whether the answer returns cannot be predicted. */
  isUnsure?: true
}

export class Predictions implements Comparison {
  readonly #requests = new Map<string, Request>()

  note(from: From, to: Place, address: string | undefined, happened: Outcome): void {
    this.#request(from, to, address).happened.add(happened)
  }

  /** These outcomes, and no others, are to be predicted. */
  only(from: From, to: Place, outcomes: readonly Outcome[], address?: string): void {
    this.#request(from, to, address).only = outcomes.toSorted()
  }

  /** Whether the answer to this request returns cannot be predicted. Of all other requests it must be. */
  unsure(from: From, to: Place): void {
    this.#request(from, to, undefined).isUnsure = true
  }

  #request(from: From, to: Place, address: string | undefined): Request {
    const key = JSON.stringify([from, to, address])
    const known = this.#requests.get(key) ?? { from, to, address, happened: new Set() }
    this.#requests.set(key, known)
    return known
  }

  /**
   * Reads the kernel of this network namespace, and fails unless everything that was noted is
   * predicted; or when nothing was.
   */
  async check(): Promise<void> {
    const look = openLook()
    const signal = AbortSignal.timeout(deadline(READ_MS))
    const wrong: string[] = []
    try {
      const reader = await PacketReader.open(look, signal)
      for (const request of this.#requests.values()) {
        const path = await reader.explain(packetOf(request), signal)
        const predicted = observable(path, request.from, request.to)
        const happened = Array.from(request.happened).sort()
        const isRight =
          happened.every((outcome) => predicted.includes(outcome)) && isUnsure(path) === (request.isUnsure ?? false)
        if (isRight && (request.only === undefined || sameList(request.only, predicted))) continue
        const { from, to, address = '' } = request
        const asked = `${to.protocol} of ${from} ${address} to ${to.address} port ${to.port}`
        const expected = request.only === undefined ? '' : `, expected ${request.only.join(' or ')}`
        const shown = wrong.length < MAX_PATHS ? `:\n${JSON.stringify(path, undefined, 1)}` : ''
        wrong.push(
          `${asked}: happened ${happened.join(' and ')}${expected}, predicted ${predicted.join(' or ')}${shown}`,
        )
      }
    } finally {
      look.close()
    }
    assert.equal(wrong.length, 0, `${wrong.length} of ${this.#requests.size} requests\n${wrong.join('\n')}`)
    assert.ok(this.#requests.size > 0, 'requests were compared with their predictions')
    console.log(`${this.#requests.size} requests went as predicted`)
  }
}

function packetOf({ from, to, address }: Request): Packet {
  return {
    source: address ?? (from === 'node' ? undefined : ADDRESSES[from][familyOf(to.address)]),
    destination: to.address,
    port: to.protocol === 'ping' ? 0 : to.port,
    protocol: to.protocol === 'ping' ? 'icmp' : to.protocol,
  }
}

function observable(path: PacketPath, from: From, to: Place): readonly Outcome[] {
  assert.ok(path.outcomes.length > 0, 'a path ends somewhere')
  for (const { share } of path.outcomes) assert.ok(share === null || (share > 0 && share <= 1), `a share of ${share}`)
  return Array.from(new Set(path.outcomes.flatMap((outcome) => wordsOf(outcome, path, from, to)))).sort()
}

function isUnsure({ outcomes }: PacketPath): boolean {
  return outcomes.some(
    ({ end, conditions }) => conditions.length > 0 || ('answer' in end && end.answer.kind === 'unsure'),
  )
}

function wordsOf({ end, steps }: PathOutcome, path: PacketPath, from: From, to: Place): readonly Outcome[] {
  switch (end.kind) {
    case 'endpoint': {
      const owner = OWNERS.get(end.address) ?? 'node'
      // To masquerade with the address that it has anyway may leave the port as it is.
      const isSame = end.source.kind === 'node' && end.isLocal
      const answered = isSame ? [`${owner} node`, `${owner} own`] : [`${owner} ${end.source.kind}`]
      if (end.answer.kind === 'returns') return answered
      return end.answer.kind === 'unsure' ? [...answered, 'nothing'] : ['nothing']
    }
    case 'refused':
      return [isErrorAtOnce([...path.steps, ...steps], from, to) ? 'EPERM' : 'refused']
    case 'dropped':
      return [isErrorAtOnce([...path.steps, ...steps], from, to) ? 'EPERM' : 'nothing']
    case 'delivered':
      // Whether a process listens is not part of a path.
      return to.protocol === 'ping' ? ['echo'] : ['node own', 'refused']
    case 'forwarded':
      return [OWNERS.has(to.address) ? `${OWNERS.get(to.address)} ${end.source.kind}` : 'nothing']
    case 'unroutable':
      return [from === 'node' ? end.error : 'nothing']
  }
}

/**
 * A process of the node gets an error for a datagram that is dropped while it sends it; what IPVS
 * sends, it sends by itself.
 */
function isErrorAtOnce(steps: readonly PathStep[], from: From, to: Place): boolean {
  return (
    from === 'node' &&
    to.protocol === 'udp' &&
    steps.at(-1)?.hook === 'OUTPUT' &&
    !steps.some(({ effect }) => effect.kind === 'balance')
  )
}
