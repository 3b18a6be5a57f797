/**
 * Which nodes send an Event that every node could send, such as one about an annotation: a few
 * nodes for each object, found by each node alone from what all nodes know alike (rendezvous
 * hashing). Without it one mistake would be as many Events as there are nodes.
 */
import { hashOf, mixed } from '../values/hash.ts'

/** Nodes that send an Event about one object. More than one, because a node may be away, or run another proxy. */
export const REPORTERS = 3

export class Reporters {
  readonly #own: number | undefined
  /** Hashes of the names of the other nodes. */
  readonly #others: Uint32Array

  /** @param nodes names of nodes, the same ones in every daemon */
  constructor(nodeName: string, nodes: ReadonlySet<string>) {
    this.#own = nodes.has(nodeName) ? hashOf(nodeName) : undefined
    this.#others = Uint32Array.from(nodes, hashOf).filter((hash) => hash !== this.#own)
  }

  /** Whether this node is one of those for an object. */
  includes(object: string): boolean {
    if (this.#own === undefined) return false
    const about = hashOf(object)
    const own = mixed(this.#own ^ about)
    let before = 0
    for (const other of this.#others) if (mixed(other ^ about) < own && ++before >= REPORTERS) return false
    return true
  }
}
