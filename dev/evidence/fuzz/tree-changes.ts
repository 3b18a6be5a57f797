/** Changes of one part of a tree: removed, repeated, nested, exchanged with a part of another input, or changed as bytes. */
import { changeBytes, type Material } from './byte-changes.ts'
import type { Random } from './random.ts'
import type { Node, TreeFormat } from './trees.ts'

interface Place {
  readonly siblings: Node[]
  readonly index: number
  readonly node: Node
}

/** Some place in the tree, found by going down at random. */
function placeIn(random: Random, root: Node): Place | undefined {
  let siblings = root.children
  let found: Place | undefined
  while (siblings !== undefined && siblings.length > 0) {
    const index = random.below(siblings.length)
    const node = siblings[index]
    if (node === undefined) return found
    found = { siblings, index, node }
    if (random.isOneIn(3)) return found
    siblings = node.children
  }
  return found
}

/** A part of the other tree that is put into this one may later get a part that contains it. */
function copyOf(node: Node): Node {
  return { ...node, children: node.children?.map(copyOf) }
}

type Change = (random: Random, place: Place, material: Material, other: Node | undefined) => void

const MAX_COPIES = 600
const MAX_NESTS = 200

const CHANGES: readonly Change[] = [
  (_, { siblings, index }) => void siblings.splice(index, 1),
  function repeat(random, { siblings, index, node }) {
    const count = random.isOneIn(12) ? random.length(MAX_COPIES) : 1
    siblings.splice(index, 0, ...Array.from({ length: count }, () => node))
  },
  function swap(random, { siblings, index, node }) {
    const at = random.below(siblings.length)
    const second = siblings[at]
    if (second === undefined) return
    siblings[at] = node
    siblings[index] = second
  },
  function renumber(random, { node }) {
    if (random.isOneIn(2)) node.tag = (node.tag + random.below(5) - 2) & 0xffff
    else node.tag = random.isOneIn(4) ? random.below(0x10000) : random.below(64)
  },
  function retype(random, { node }) {
    node.tag = node.tag ^ random.pick([1, 2, 3, 5, 7, 0x4000, 0x8000])
  },
  function take(random, { siblings, index }, _, other) {
    const taken = other === undefined ? undefined : placeIn(random, other)
    if (taken !== undefined) siblings.splice(index, random.below(2), copyOf(taken.node))
  },
  function nest(random, { siblings, index, node }) {
    let inner = node
    for (let count = random.isOneIn(8) ? random.length(MAX_NESTS) : 1; count > 0; count--)
      inner = { tag: node.tag, prefix: new Uint8Array(), value: new Uint8Array(), children: [inner] }
    siblings[index] = inner
  },
  function empty(_, { node }) {
    node.children = undefined
    node.value = new Uint8Array()
  },
  function word(random, { node }, { words }) {
    if (words.length === 0) return
    node.children = undefined
    const chosen = random.pick(words)
    // Texts of netlink end with a zero.
    node.value = random.isOneIn(3) ? chosen : new Uint8Array([...chosen, 0])
  },
  function value(random, { node }, material) {
    if (node.children === undefined || random.isOneIn(4)) {
      node.value = changeBytes(random, node.value, material)
      node.children = undefined
    }
  },
  function flatten(_, { siblings, index, node }) {
    if (node.children !== undefined) siblings.splice(index, 1, ...node.children)
  },
]

/** How often the values of leaves are changed and not the tree. */
const VALUES_ONE_IN = 3

/** One change or a few of the input as a tree; undefined when it is none. */
export function changeTree(
  random: Random,
  format: TreeFormat,
  input: Uint8Array,
  material: Material,
): Uint8Array | undefined {
  const root = format.read(input)
  if (root === undefined) return undefined
  const other = random.isOneIn(4) ? format.read(random.pick(material.pool)) : undefined
  for (let count = random.isOneIn(3) ? 1 + random.below(5) : 1; count > 0; count--) {
    const place = placeIn(random, root)
    if (place === undefined) return format.write(root)
    if (random.isOneIn(VALUES_ONE_IN) && place.node.children === undefined)
      place.node.value = changeBytes(random, place.node.value, { ...material, pool: [place.node.value] })
    else random.pick(CHANGES)(random, place, material, other)
  }
  const bytes = format.write(root)
  return bytes.length > material.maxBytes ? bytes.slice(0, material.maxBytes) : bytes
}
