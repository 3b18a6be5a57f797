/** The request for rules of policy routing and the kernel's answers, byte by byte. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requestOf } from '../../src/netlink/batch.ts'
import { decodePolicyRule, encodeDumpRules } from '../../src/netlink/policy-rules.ts'
import { hex, message, onlyMessage, toHex } from './wire.ts'

const rule = (payload: string, type = 32) => onlyMessage(message(type, 0, 1, hex(payload)))
/** struct fib_rule_hdr: family, lengths of destination and source, tos, table, action, flags. */
const header = (family: string, source = '00', tos = '00', flags = '00') =>
  `${family} 00 ${source} ${tos} fe 00 00 01 ${flags}000000`
const PRIORITY_100 = '0800 0600 64000000'
const TABLE_1000 = '0800 0f00 e8030000'
const ALL_USERS = '0c00 1400 00000000 ffffffff'

test('the request is for the rules of all families, and nothing in its header is set', () => {
  const bytes = requestOf(encodeDumpRules).seal(1, false)
  assert.equal(toHex(bytes), toHex(hex('1c000000 2200 0103 01000000 00000000 000000000000000000000000')))
})

test('a rule has the words of what it looks at besides destination and mark', () => {
  const MARK = '0800 0a00 01000000'
  const rows: readonly (readonly [payload: string, selectors: readonly string[]])[] = [
    [header('02') + PRIORITY_100 + ALL_USERS, []],
    [header('02') + MARK + '0800 0100 0a600000', []],
    [`${header('02', '18')} 0800 0200 c0000200 ${TABLE_1000}`, ['from 192.0.2.0/24']],
    [`${header('0a', '80')} 1400 0200 fd000000 00000000 00000000 00000001`, ['from fd00::1/128']],
    [`${header('02', '20', '00', '02')} 0800 0200 c0000207`, ['not', 'from 192.0.2.7/32']],
    [`${header('02')} 0900 0300 6574683100 000000 0900 1100 6574683200 000000`, ['iif eth1', 'oif eth2']],
    [`${header('02')} 0c00 1400 00000000 e8030000`, ['uidrange 0-1000']],
    [
      `${header('02', '00', '10')} 0500 1600 06 000000 0800 1700 01000200 0800 1800 50005000`,
      ['ipproto 6', 'sport', 'dport', 'tos 16'],
    ],
  ]
  for (const [payload, selectors] of rows) assert.deepEqual(decodePolicyRule(rule(payload))?.selectors, selectors)
  const { priority, table, family } = decodePolicyRule(rule(header('02') + PRIORITY_100 + TABLE_1000)) ?? {}
  assert.deepEqual([priority, table, family], [100, 1000, 'IPv4'])
})

test('rules of other families are left out, and other messages refused', () => {
  assert.equal(decodePolicyRule(rule(header('81'))), undefined)
  assert.throws(() => decodePolicyRule(rule(header('02'), 24)), { code: 'netlink-malformed' })
  assert.throws(() => decodePolicyRule(rule('0200')), { code: 'netlink-malformed' })
  assert.throws(() => decodePolicyRule(rule(`${header('02', '18')} 0600 0200 c000 0000`)), {
    code: 'netlink-malformed',
  })
})
