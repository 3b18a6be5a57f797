/** Messages about private tables that are cut short or changed: an error or a value, never anything else. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type MessageBatch, requestOf } from '../../src/netlink/batch.ts'
import type { ReceivedMessage } from '../../src/netlink/message.ts'
import { decodeChain, decodePrivateRule, encodeNewChain, encodeRule } from '../../src/nftables/chain-codec.ts'
import { decodeElements, encodeElements } from '../../src/nftables/element-codec.ts'
import { decodeSet, encodeNewSet, NetworksDecoder } from '../../src/nftables/set-codec.ts'
import { decodeStatements } from '../../src/nftables/statement-decoder.ts'
import { decodePrivateTable, encodeNewTable } from '../../src/nftables/table-codec.ts'
import { message, onlyMessage } from '../netlink/wire.ts'
import { INPUT, JUMP, PORT, RANGES } from './private-messages.ts'

/** Every message that is read, and its reader. */
const READERS: readonly (readonly [
  string,
  encode: (batch: MessageBatch) => void,
  read: (given: ReceivedMessage) => unknown,
])[] = [
  ['table', (batch) => encodeNewTable(batch, 'IPv4', true), decodePrivateTable],
  ['set', (batch) => encodeNewSet(batch, RANGES), decodeSet],
  ['chain', (batch) => encodeNewChain(batch, INPUT), decodeChain],
  [
    'rule',
    (batch) =>
      encodeRule(
        batch,
        'IPv4',
        'in',
        { statements: [{ kind: 'new-connection' }, { kind: 'reject' }], comment: 'x' },
        1,
      ),
    (given) => {
      const rule = decodePrivateRule(given, 'IPv4')
      return rule && decodeStatements(rule.expressions, 'IPv4', () => undefined)
    },
  ],
  [
    'elements',
    (batch) =>
      encodeElements(batch, 'NEWSETELEM', 'IPv4', 'ranges', [JUMP, { ...JUMP, value: '10.96.0.2 . udp . 53' }]),
    (given) => decodeElements(given, RANGES, () => undefined),
  ],
  [
    'networks',
    (batch) => encodeElements(batch, 'NEWSETELEM', 'IPv4', '__set1', [{ ...PORT, family: 'IPv4', value: '10.0.0.0' }]),
    (given) => {
      const decoder = new NetworksDecoder('IPv4')
      decoder.read(given)
      return decoder.networks()
    },
  ],
]

describe('a malformed message', () => {
  /** Reads it; anything but a value or netlink-malformed is a mistake. */
  function readsSafely(read: (given: ReceivedMessage) => unknown, type: number, bytes: Uint8Array): boolean {
    try {
      read(onlyMessage(message(type, 0, 1, bytes)))
      return true
    } catch (error) {
      assert.equal((error as { code?: unknown }).code, 'netlink-malformed')
      return false
    }
  }

  for (const [name, encode, read] of READERS) {
    const { bytes, start, end, type } = onlyMessage(requestOf(encode).bytes.slice())
    const whole = bytes.slice(start, end)

    it(`is refused or read in part, cut short anywhere: ${name}`, () => {
      let refused = 0
      for (let length = 0; length < whole.length; length++)
        if (!readsSafely(read, type, whole.subarray(0, length))) refused++
      // Only where an attribute ends is the rest missing without a trace.
      assert.ok(refused > whole.length / 2, `${refused} of ${whole.length}`)
    })

    it(`is refused or read, with any bytes changed: ${name}`, () => {
      const change = fc.tuple(fc.nat({ max: whole.length - 1 }), fc.integer({ min: 0, max: 255 }))
      fc.assert(
        fc.property(fc.array(change, { minLength: 1, maxLength: 4 }), (changes) => {
          const changed = whole.slice()
          for (const [at, value] of changes) changed[at] = value
          readsSafely(read, type, changed)
        }),
      )
    })
  }
})
