/** Single matches of rules, as the kernel compares them, on the first packet of a connection. */
import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import type { Packet } from '../../src/explain/types.ts'
import { endsOf, explain, filterWorld, PACKET, type WorldText, worldOf } from './world.ts'

/** What a DROP with these matches does to the packet in INPUT. */
function dropped(match: string, packet: Partial<Packet> = {}, more: WorldText = {}): string {
  return endsOf(explain(filterWorld([`-A INPUT ${match} -j DROP`], more), { ...PACKET, ...packet })).join(', ')
}

const SETS = [
  'create PORTS bitmap:port range 0-65535',
  'add PORTS 80',
  'create NETS hash:ip,port,net family inet hashsize 1024 maxelem 65536',
  'add NETS 10.0.2.15,tcp:80,10.0.2.0/24',
  'add NETS 10.0.2.15,tcp:80,10.0.2.100 nomatch',
  '',
].join('\n')

describe('matches', () => {
  const matching: readonly (readonly [string, Partial<Packet>?])[] = [
    ['-s 10.0.2.0/24'],
    ['! -s 10.0.3.0/24'],
    ['-d 10.0.2.15/32 -i eth0'],
    ['-i eth+'],
    ['! -i cni0'],
    ['-p tcp'],
    ['-p 6'],
    ['-p tcp -m tcp --dport 80'],
    ['-p tcp -m tcp --dport 79:81'],
    ['-p tcp -m tcp ! --dport 81'],
    ['-p tcp -m tcp --sport 1024:65535'],
    ['-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN'],
    ['-p tcp -m multiport --dports 22,80,443'],
    ['-p tcp -m multiport ! --dports 22,443'],
    ['-p udp', { protocol: 'udp' }],
    ['-p sctp -m sctp --dport 80', { protocol: 'sctp' }],
    ['-p icmp -m icmp --icmp-type 8', { protocol: 'icmp', port: 0 }],
    ['-m conntrack --ctstate NEW'],
    ['-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT'],
    ['-m state --state NEW'],
    ['-m addrtype --dst-type LOCAL'],
    ['-m addrtype ! --src-type LOCAL'],
    ['-m mark --mark 0x0/0xff'],
    ['-m mark ! --mark 0x4000/0x4000'],
    ['-m physdev ! --physdev-is-in'],
    ['-m set --match-set PORTS dst'],
    ['-m set ! --match-set PORTS dst', { protocol: 'sctp' }],
    ['-m set --match-set NETS dst,dst,src', { source: '10.0.2.101' }],
    ['-m set ! --match-set NETS dst,dst,src'],
    ['-m rpfilter'],
    ['-m comment --comment "-j ACCEPT ! --dport 81"'],
    ['-m limit --limit 5/min'],
    ['-m ipvs ! --ipvs'],
    ['-m statistic --mode random --probability 1.00000000000'],
    ['-m statistic --mode nth --every 1 --packet 0'],
  ]
  for (const [match, packet] of matching)
    it(`${match} matches`, () => assert.equal(dropped(match, packet, { sets: SETS }), 'dropped'))

  const others: readonly (readonly [string, Partial<Packet>?])[] = [
    ['-s 10.0.3.0/24'],
    ['! -s 10.0.2.0/24'],
    ['-i eth1'],
    ['-i cni+'],
    ['-o eth0'],
    ['-p udp'],
    ['-p ipv6-icmp', { protocol: 'icmp', port: 0 }],
    ['-p tcp -m tcp --dport 81'],
    ['-p tcp -m tcp --sport 80'],
    ['-p tcp -m tcp --tcp-flags SYN,ACK SYN,ACK'],
    ['-p icmp -m icmp --icmp-type 0', { protocol: 'icmp', port: 0 }],
    ['-m conntrack --ctstate RELATED,ESTABLISHED'],
    ['-m conntrack --ctstate INVALID'],
    ['-m addrtype --src-type LOCAL'],
    ['-m mark --mark 0x4000/0x4000'],
    ['-m physdev --physdev-is-in'],
    ['-m set --match-set PORTS dst', { port: 81 }],
    ['-m set --match-set PORTS dst', { protocol: 'sctp' }],
    ['-m set --match-set NETS dst,dst,src'],
    ['-m statistic --mode random --probability 0.00000000000'],
    ['-m statistic --mode random ! --probability 1.00000000000'],
    ['-m ipvs --vaddr 10.0.2.15 --vport 80 --vdir ORIGINAL'],
    ['-m recent --rcheck --seconds 10 --name KUBE-SEP-AEXJBL2DDECPIHGN --rsource'],
  ]
  for (const [match, packet] of others)
    it(`${match} does not match`, () => assert.equal(dropped(match, packet, { sets: SETS }), 'delivered'))

  const unjudged = [
    '-m u32 --u32 0x0',
    '-m owner --uid-owner 0',
    '-m set --match-set cali40s:abc src',
    '-m time --timestart 01:00:00',
    '-p tcp -m tcp --tcp-option 5',
    '-p tcp -m tcp --sport 40000:50000',
    '-m addrtype --dst-type ANYCAST',
    '-m mark --mark many',
    '-m statistic --mode random --probability much',
    '-s 10.0.0.100/255.0.255.255',
    '-m recent --rcheck --seconds 60 --name SSH --rsource',
  ]
  for (const match of unjudged) it(`${match} is not judged`, () => assert.equal(dropped(match), 'delivered, dropped'))
})

test('what is behind a bridge came through a port of it, if rules see that', () => {
  assert.equal(dropped('-m physdev --physdev-is-in', { source: '10.244.0.10' }), 'dropped')
  const blind = { more: { seesBridged: { IPv4: false, IPv6: false } } }
  assert.equal(dropped('-m physdev --physdev-is-in', { source: '10.244.0.10' }, blind), 'delivered')
})

test('no rule text makes a prediction fail, or end nowhere', () => {
  const option = fc.constantFrom(
    '-s',
    '-d',
    '-i',
    '-o',
    '-p',
    '-f',
    '!',
    '-m tcp',
    '-m set',
    '-m mark',
    '-m multiport',
    '-m conntrack',
    '-m addrtype',
    '-m ipvs',
    '-m statistic',
    '-m recent',
    '-m physdev',
    '-m icmp',
    '-m connmark',
    '--dport',
    '--dports',
    '--tcp-flags',
    '--match-set',
    '--mark',
    '--ctstate',
    '--dst-type',
    '--vaddr',
    '--probability',
    '--every',
    '--rcheck',
    '--set-xmark',
    '--to-destination',
    '--reject-with',
    '-j',
    '-g',
    '-j MARK',
    '-j DNAT',
    '-j CONNMARK',
    '-j MASQUERADE',
    '-j SNAT',
    '-j REJECT',
    '-j A',
    '-g A',
    '--restore-mark',
  )
  const value = fc.constantFrom(
    '',
    'tcp',
    '0',
    '80',
    ':',
    '1:2:3',
    '10.0.2.0/24',
    '10.0.2.15:80',
    '[::1]:80',
    '::',
    '0x1/0x1',
    'PORTS dst',
    'NETS src,dst',
    'LOCAL',
    '"',
    'A',
  )
  const rule = fc.array(fc.tuple(option, value), { maxLength: 6 }).map((parts) => parts.flat().join(' '))
  const table = (name: string, hook: string, rules: readonly string[]): string =>
    [
      `*${name}`,
      `:${hook} ACCEPT [0:0]`,
      ':A - [0:0]',
      ...rules.map((one, at) => `-A ${at % 2 === 0 ? hook : 'A'} ${one}`),
      'COMMIT',
      '',
    ].join('\n')
  fc.assert(
    fc.property(
      fc.array(rule, { maxLength: 6 }),
      fc.array(rule, { maxLength: 6 }),
      fc.constantFrom('tcp', 'icmp'),
      (nat, filter, protocol) => {
        const rules = table('nat', 'PREROUTING', nat) + table('filter', 'INPUT', filter)
        const { outcomes } = explain(worldOf({ rules, sets: SETS }), { ...PACKET, protocol })
        assert.ok(outcomes.length > 0)
        for (const { share } of outcomes) assert.ok(share === null || (share > 0 && share < 1 + 1e-9), `${share}`)
      },
    ),
  )
})
