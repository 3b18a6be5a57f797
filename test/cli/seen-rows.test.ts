/** Virtual servers that the kernel has lost since the daemon looked count as missing. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seenRows } from '../../src/cli/two-looks.ts'
import { VIRTUAL_SERVERS } from '../../src/ipvs/diff.ts'

type Args = Parameters<typeof seenRows>

const TABLE = VIRTUAL_SERVERS.name
const KEYS = ['10.96.0.1:80/tcp', '10.96.0.2:80/tcp', '[fd00::1]:80/tcp']
const counts = (missing: number, present: number) => ({ missing, present, extra: 0, differs: 0, draining: 0 })
const NAMES: Args[1] = new Map(KEYS.map((key) => [key, { key, servicePort: 'demo/web:http' } as never]))
const kernel = (...keys: readonly string[]): Args[2] => ({
  ipvs: { virtualServers: keys.map((key) => ({ key })) } as never,
})
const daemon = (families: Args[3]['families'], mode: Args[3]['mode'] = 'ipvs'): Args[3] => ({ mode, families })

const rows: Args[0] = {
  ...counts(1, 7),
  tables: [
    { table: TABLE, ...counts(1, 2) },
    { table: 'addresses', ...counts(0, 5) },
  ],
  unread: [],
  wrong: [{ table: TABLE, key: '10.96.0.1:80/tcp', state: 'missing' }],
}

describe('seenRows', () => {
  it('counts a virtual server that is gone as missing, once', () => {
    const seen = seenRows(rows, NAMES, kernel('[fd00::1]:80/tcp'), daemon(['IPv4', 'IPv6']))
    assert.deepEqual([seen.missing, seen.present], [2, 6])
    assert.deepEqual(seen.tables, [{ table: TABLE, ...counts(2, 1) }, rows.tables[1]])
    assert.deepEqual(
      seen.wrong.map(({ key, state }) => [key, state]),
      [
        ['10.96.0.1:80/tcp', 'missing'],
        ['10.96.0.2:80/tcp', 'missing'],
      ],
    )
  })

  it('counts those once that the daemon counted and did not name', () => {
    const keys = Array.from({ length: 500 }, (_, index) => `10.96.${index >> 8}.${index & 255}:80/tcp`)
    const names: Args[1] = new Map(keys.map((key) => [key, { key, servicePort: 'demo/web:http' } as never]))
    const wrong = keys.slice(0, 100).map((key) => ({ table: TABLE, key, state: 'missing' as const }))
    const counted = { ...counts(500, 1000), tables: [{ table: TABLE, ...counts(500, 1000) }], unread: [], wrong }
    const seen = seenRows(counted, names, kernel(), daemon(['IPv4']))
    assert.deepEqual([seen.missing, seen.present, seen.tables], [500, 1000, counted.tables])
    const fewer = { ...counts(450, 50), tables: [{ table: TABLE, ...counts(450, 50) }], unread: [], wrong }
    const later = seenRows(fewer, names, kernel(), daemon(['IPv4']))
    assert.deepEqual([later.missing, later.present], [500, 0])
  })

  it('leaves the rows as they are where the kernel has everything, and where it is not known', () => {
    assert.equal(seenRows(rows, NAMES, kernel('10.96.0.2:80/tcp'), daemon(['IPv4'])), rows)
    assert.equal(seenRows(rows, NAMES, kernel(), daemon(['IPv4'], 'iptables')), rows)
    assert.equal(seenRows(rows, NAMES, { ipvs: null }, daemon(['IPv4'])), rows)
    const unread = { ...rows, unread: [TABLE] }
    assert.equal(seenRows(unread, NAMES, kernel(), daemon(['IPv4'])), unread)
  })
})
