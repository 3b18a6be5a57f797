/** Tables of iptables-legacy that nothing on the node can read are named, not passed over. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { removeLegacyChains } from '../../../src/modes/leftovers/iptables-leftovers.ts'

const signal = new AbortController().signal
const now = (): number => 0

test('legacy tables without a program of legacy are named once each, and no program is looked for without tables', async () => {
  let looks = 0
  const none = async (): Promise<undefined> => {
    looks++
    return undefined
  }
  const { commands, failures, unread } = await removeLegacyChains(now, signal, ['nat', 'filter', 'nat'], none)
  assert.deepEqual([commands, failures, unread, looks], [[], [], ['nat', 'filter'], 1])
  assert.deepEqual((await removeLegacyChains(now, signal, [], none)).unread, [])
  assert.equal(looks, 1)
})
