/** Changes of bytes without knowledge of their format: bits, numbers, lengths, parts that are cut, moved and repeated. */
import type { Random } from './random.ts'

/** What a change may use beside the input itself. */
export interface Material {
  /** Other inputs, parts of which may be taken. */
  readonly pool: readonly Uint8Array[]
  /** Words of the format. */
  readonly words: readonly Uint8Array[]
  /** No changed input is longer. */
  readonly maxBytes: number
}

const NUMBERS: readonly number[] = [
  0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 63, 64, 100, 127, 128, 254, 255, 256, 1024, 4095, 4096, 0x7fff, 0x8000,
  0xfffe, 0xffff, 0x10000, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff,
]

type Change = (random: Random, input: Uint8Array, material: Material) => Uint8Array

/** A copy with `count` bytes at `at` replaced. */
function replaced(input: Uint8Array, at: number, count: number, by: Uint8Array): Uint8Array {
  const changed = new Uint8Array(input.length - count + by.length)
  changed.set(input.subarray(0, at))
  changed.set(by, at)
  changed.set(input.subarray(at + count), at + by.length)
  return changed
}

/** A place in the input, and a number of bytes from there. */
function part(random: Random, input: Uint8Array): readonly [at: number, count: number] {
  const at = random.below(input.length + 1)
  return [at, Math.min(input.length - at, random.length(Math.max(1, input.length)))]
}

function written(random: Random, input: Uint8Array, value: number): Uint8Array {
  const changed = input.slice()
  const size = random.pick([1, 2, 2, 4, 4])
  if (changed.length < size) return changed
  // Most numbers of binary formats are aligned.
  const at = random.isOneIn(3)
    ? random.below(changed.length - size + 1)
    : random.below(Math.floor((changed.length - size) / size) + 1) * size
  const isLittle = random.isOneIn(2)
  for (let index = 0; index < size; index++)
    changed[at + (isLittle ? index : size - 1 - index)] = (value >>> (8 * index)) & 0xff
  return changed
}

const CHANGES: readonly Change[] = [
  function flipBit(random, input) {
    const changed = input.slice()
    const at = random.below(input.length)
    changed[at] = (changed[at] ?? 0) ^ (1 << random.below(8))
    return changed
  },
  function setByte(random, input) {
    const changed = input.slice()
    changed[random.below(input.length)] = random.below(256)
    return changed
  },
  (random, input) => written(random, input, random.pick(NUMBERS)),
  /** A length of the input itself, or one that is nearly right. */
  (random, input) => written(random, input, Math.max(0, random.below(input.length + 4) - 2)),
  function add(random, input) {
    const changed = input.slice()
    const at = random.below(input.length)
    changed[at] = ((changed[at] ?? 0) + random.below(9) - 4) & 0xff
    return changed
  },
  function cut(random, input) {
    const [at, count] = part(random, input)
    return replaced(input, at, count, new Uint8Array())
  },
  (random, input) => input.slice(0, random.below(input.length + 1)),
  function insertWord(random, input, { words }) {
    const word = words.length === 0 ? Uint8Array.of(0) : random.pick(words)
    return replaced(input, random.below(input.length + 1), 0, word)
  },
  function overwriteWithWord(random, input, { words }) {
    const word = words.length === 0 ? Uint8Array.of(0xff) : random.pick(words)
    const at = random.below(input.length + 1)
    return replaced(input, at, Math.min(word.length, input.length - at), word)
  },
  function repeat(random, input, { maxBytes }) {
    const [at, count] = part(random, input)
    const one = input.subarray(at, at + count)
    const wanted = random.isOneIn(20) ? random.length(2000) : 1 + random.below(3)
    const times = Math.min(wanted, Math.ceil(maxBytes / Math.max(1, one.length)))
    const all = new Uint8Array(one.length * times)
    for (let index = 0; index < times; index++) all.set(one, index * one.length)
    return replaced(input, at, 0, all)
  },
  function move(random, input) {
    const [at, count] = part(random, input)
    const one = input.slice(at, at + count)
    const rest = replaced(input, at, count, new Uint8Array())
    return replaced(rest, random.below(rest.length + 1), 0, one)
  },
  function splice(random, input, { pool }) {
    const other = random.pick(pool)
    const [from, count] = part(random, other)
    const [at, removed] = part(random, input)
    return replaced(input, at, random.isOneIn(2) ? removed : 0, other.subarray(from, from + count))
  },
  function cross(random, input, { pool }) {
    const other = random.pick(pool)
    const at = random.below(input.length + 1)
    return replaced(input, at, input.length - at, other.subarray(Math.min(at, other.length)))
  },
]

/** One change, or a few. */
export function changeBytes(random: Random, input: Uint8Array, material: Material): Uint8Array {
  let changed = input
  for (let count = random.isOneIn(3) ? 1 + random.below(6) : 1; count > 0; count--) {
    if (changed.length === 0) return random.pick(material.pool)
    changed = random.pick(CHANGES)(random, changed, material)
    if (changed.length > material.maxBytes) changed = changed.slice(0, material.maxBytes)
  }
  return changed
}
