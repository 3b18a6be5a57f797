/** What is said of rules that packets meet and nothing here reads. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unreadLegacy } from '../../../src/modes/look/packet-rules.ts'

test('tables of iptables-legacy are a limit only where their programs are not installed', () => {
  assert.deepEqual(unreadLegacy('nft', []), [])
  assert.deepEqual(unreadLegacy('legacy', ['filter']), [])
  const [limit, ...more] = unreadLegacy('nft', ['nat', 'filter'])
  assert.match(limit ?? '', /tables of iptables-legacy, which no program here reads/)
  assert.deepEqual(more, [])
})
