import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { SetType } from '../../src/ipset/catalogue.ts'
import { formatEntry, parseEntry } from '../../src/ipset/entry-text.ts'
import type { EntryParts } from '../../src/ipset/types.ts'
import type { IpFamily } from '../../src/values/protocol.ts'
import { partsFor, someSet } from './arbitraries.ts'

const ROWS: readonly (readonly [SetType, IpFamily, string, EntryParts])[] = [
  ['bitmap:port', 'IPv4', '30080', { port: 30080 }],
  ['hash:ip', 'IPv6', 'fd00::1', { address: 'fd00::1' }],
  ['hash:ip,port', 'IPv4', '10.96.0.1,tcp:443', { address: '10.96.0.1', protocol: 'tcp', port: 443 }],
  ['hash:ip,port', 'IPv4', '10.96.0.1,udplite:7', { address: '10.96.0.1', protocol: 136, port: 7 }],
  ['hash:ip,port', 'IPv4', '10.96.0.1,icmp:8/1', { address: '10.96.0.1', protocol: 1, port: 0x801 }],
  ['hash:ip,port', 'IPv6', 'fd00::1,icmpv6:128/0', { address: 'fd00::1', protocol: 58, port: 0x8000 }],
  ['hash:ip,port', 'IPv4', '10.96.0.1,47:0', { address: '10.96.0.1', protocol: 47, port: 0 }],
  [
    'hash:ip,port,ip',
    'IPv6',
    'fd00::1,sctp:9,fd00::2',
    { address: 'fd00::1', protocol: 'sctp', port: 9, second: 'fd00::2' },
  ],
  [
    'hash:ip,port,net',
    'IPv4',
    '1.2.3.4,udp:53,10.0.0.0/8',
    { address: '1.2.3.4', protocol: 'udp', port: 53, second: '10.0.0.0', secondLength: 8 },
  ],
  [
    'hash:ip,port,net',
    'IPv4',
    '1.2.3.4,udp:53,10.0.0.1',
    { address: '1.2.3.4', protocol: 'udp', port: 53, second: '10.0.0.1', secondLength: 32 },
  ],
]

const BAD: readonly (readonly [SetType, IpFamily, string])[] = [
  ['bitmap:port', 'IPv4', '65536'],
  ['bitmap:port', 'IPv4', '-1'],
  ['bitmap:port', 'IPv4', ''],
  ['hash:ip', 'IPv4', 'fd00::1'],
  ['hash:ip', 'IPv4', '10.0.0.1,tcp:80'],
  ['hash:ip', 'IPv6', '[fd00::1]'],
  ['hash:ip,port', 'IPv4', '10.0.0.1'],
  ['hash:ip,port', 'IPv4', '10.0.0.1,80'],
  ['hash:ip,port', 'IPv4', '10.0.0.1,tcp:65536'],
  ['hash:ip,port', 'IPv4', '10.0.0.1,256:1'],
  ['hash:ip,port', 'IPv4', '10.0.0.1,constructor:1'],
  ['hash:ip,port', 'IPv4', '10.0.0.1,icmp:8'],
  ['hash:ip,port', 'IPv4', '10.0.0.1,TCP:8'],
  ['hash:ip,port,ip', 'IPv4', '10.0.0.1,tcp:80,fd00::1'],
  ['hash:ip,port,net', 'IPv4', '10.0.0.1,tcp:80,10.0.0.0/33'],
  ['hash:ip,port,net', 'IPv4', '10.0.0.1,tcp:80,10.0.0.0/8/8'],
  ['hash:ip,port,net', 'IPv6', 'fd00::1,tcp:80,fd00::/129'],
]

describe('entry text', () => {
  for (const [type, family, text, parts] of ROWS)
    it(`parseEntry and formatEntry agree on ${text}`, () => {
      assert.deepEqual(parseEntry(type, family, text), parts)
      assert.equal(formatEntry(parts), text)
    })

  for (const [type, family, text] of BAD)
    it(`parseEntry refuses ${JSON.stringify(text)} for ${type} ${family}`, () =>
      assert.equal(parseEntry(type, family, text), undefined))

  it('parseEntry reverses formatEntry for every type', () => {
    const any = someSet.chain((set) => partsFor(set).map((parts) => ({ set, parts })))
    fc.assert(
      fc.property(any, ({ set, parts }) =>
        assert.deepEqual(parseEntry(set.type, set.family, formatEntry(parts)), parts),
      ),
    )
  })

  it('parseEntry throws for no text', () => {
    fc.assert(fc.property(someSet, fc.string(), (set, text) => void parseEntry(set.type, set.family, text)))
  })
})
