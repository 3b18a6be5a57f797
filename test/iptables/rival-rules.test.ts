/** Which rules in front of our jump take packets of Services, and how often the jump is moved. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FIRST_WAIT_MS, JumpOrder, MAX_MOVES, MOVES_WITHIN_MS } from '../../src/iptables/jump-order.ts'
import { findRival, portsTaken } from '../../src/iptables/rival-rules.ts'

const OURS = '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'
const owns = (chain: string): boolean => chain.startsWith('KUBE-')
const serves = (address: string): boolean => address === '10.96.0.1'

function search(before: readonly string[], chains: Readonly<Record<string, readonly string[]>> = {}) {
  const table = new Map<string, readonly string[]>([['PREROUTING', [...before, OURS]], ...Object.entries(chains)])
  return findRival(table, 'PREROUTING', before.length, owns, serves)
}

/** As the CNI plugin portmap writes it. */
const PORTMAP = {
  'CNI-HOSTPORT-DNAT': [
    '-p tcp -m comment --comment "dnat name: \\"x\\"" -m multiport --dports 8443,443 -j CNI-DN-abc',
  ],
  'CNI-DN-abc': [
    '-s 10.244.0.0/24 -p tcp -m tcp --dport 443 -j CNI-HOSTPORT-SETMARK',
    '-p tcp -m tcp --dport 443 -j DNAT --to-destination 10.244.0.5:443',
    '-p udp -m udp --dport 53 -j DNAT --to-destination 10.244.0.5:53',
  ],
  'CNI-HOSTPORT-SETMARK': ['-m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000'],
}
const JUMP = '-m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT'

describe('findRival', () => {
  it('ends in chains that lead very far, and counts them as a rival', () => {
    const far = Object.fromEntries(Array.from({ length: 9000 }, (_, index) => [`C${index}`, [`-j C${index + 1}`]]))
    assert.equal(search(['-j C0'], { ...far, C9000: ['-j RETURN'] }).rival?.rule, '-j C0')
    const near = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`C${index}`, [`-j C${index + 1}`]]))
    assert.equal(search(['-j C0'], { ...near, C50: ['-j RETURN'] }).rival, undefined)
  })

  it('finds the jump of a hostPort, and the rules and ports that take packets', () => {
    const { rival, watched } = search(['-j KUBE-HOSTPORTS', JUMP], PORTMAP)
    assert.equal(rival?.rule, JUMP)
    assert.deepEqual(
      rival?.takes.map((rule) => rule.split(' -j ')[1]?.split(' ')[0]),
      ['DNAT', 'DNAT'],
    )
    assert.deepEqual(portsTaken(rival?.takes ?? []), ['443/tcp', '53/udp'])
    assert.deepEqual([...watched].sort(), ['CNI-DN-abc', 'CNI-HOSTPORT-DNAT', 'CNI-HOSTPORT-SETMARK'])
  })

  const rows: readonly (readonly [
    what: string,
    isRival: boolean,
    before: readonly string[],
    chains?: Readonly<Record<string, readonly string[]>>,
  ])[] = [
    ['nothing', false, []],
    ['a chain of ours', false, ['-j KUBE-FIREWALL']],
    ['marks and logs', false, ['-j MARK --set-xmark 0x1/0x1', '-i eth0', '-j LOG', '-j CONNMARK --save-mark']],
    ['an empty chain', false, [JUMP], { 'CNI-HOSTPORT-DNAT': [] }],
    [
      'chains that only return and mark',
      false,
      ['-j cali-PREROUTING'],
      { 'cali-PREROUTING': ['-j cali-fip-dnat', '-j MARK --set-xmark 0x2/0x2'], 'cali-fip-dnat': ['-i x -j RETURN'] },
    ],
    [
      'a floating address that is no Service',
      false,
      ['-j cali-PREROUTING'],
      { 'cali-PREROUTING': ['-d 192.0.2.7/32 -j DNAT --to-destination 10.244.0.9'] },
    ],
    [
      'an address of a Service',
      true,
      ['-j cali-PREROUTING'],
      { 'cali-PREROUTING': ['-d 10.96.0.1/32 -j DNAT --to-destination 10.244.0.9'] },
    ],
    ['every address but one', true, ['! -d 192.0.2.7/32 -j ACCEPT']],
    ['a range of addresses', true, ['-d 10.0.0.0/8 -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 8080']],
    ['an accept', true, ['-i eth0 -j ACCEPT']],
    ['a return of the built-in chain', true, ['-s 10.0.0.0/8 -j RETURN']],
    ['a goto that does not come back', true, ['-g MINE'], { MINE: [] }],
    ['a target of nobody', true, ['-p tcp -j TPROXY --on-port 1']],
    ['a rule of nft', true, ['-m nft --handle 7 -j NFT']],
    [
      'a chain that another one leads to',
      true,
      ['-j A'],
      { A: ['-j B', '-j A'], B: ['-j DNAT --to-destination 10.0.0.1'] },
    ],
  ]
  for (const [what, isRival, before, chains] of rows)
    it(`${isRival ? 'counts' : 'does not count'} ${what}`, () => {
      assert.equal(search(before, chains).rival !== undefined, isRival)
    })

  it('looks only at what is in front of the jump', () => {
    const table = new Map([['PREROUTING', [OURS, JUMP]], ...Object.entries(PORTMAP)])
    assert.equal(findRival(table, 'PREROUTING', 0, owns, serves).rival, undefined)
  })

  it('ends its work in any ruleset, and then counts the rule', () => {
    const doubling = Object.fromEntries(
      Array.from({ length: 60 }, (_, index) => [`C${index}`, [`-j C${index + 1}`, `-j C${index + 1}`]]),
    )
    assert.equal(search(['-j C0'], { ...doubling, C60: [] }).rival, undefined)
    const long = Array.from({ length: 20_000 }, (_, index) => `-s 10.0.${index >> 8}.${index & 255}/32 -j RETURN`)
    assert.equal(search(['-j LONG'], { LONG: long }).rival?.rule, '-j LONG')
  })
})

describe('JumpOrder', () => {
  const KEY = 'nat PREROUTING KUBE-SERVICES'
  const ordered = () => {
    const clock = { ms: 0 }
    const order = new JumpOrder(() => clock.ms)
    /** Another program has displaced the jump: whether it was moved. */
    const displaced = (afterMs: number): boolean => {
      clock.ms += afterMs
      if (!order.admit(KEY)) return false
      order.moved(KEY)
      return true
    }
    return { clock, order, displaced }
  }

  it('moves a jump some times within ten minutes, then waits longer and longer', () => {
    const { order, displaced, clock } = ordered()
    const moves = Array.from({ length: MAX_MOVES + 1 }, () => displaced(1000))
    assert.deepEqual(moves, [true, true, true, false])
    assert.notEqual(order.nextDueMs(), undefined)
    assert.equal(order.nextDueMs(), clock.ms + FIRST_WAIT_MS)
    assert.equal(displaced(FIRST_WAIT_MS - 1), false)
    assert.equal(displaced(1), true)
    assert.equal(displaced(1000), false)
    assert.equal(displaced(FIRST_WAIT_MS), false)
    assert.equal(displaced(FIRST_WAIT_MS - 1000), true)
    // At last every two hours.
    let moved = 0
    for (let hour = 0; hour < 48; hour++) if (displaced(3_600_000)) moved++
    assert.ok(moved >= 20 && moved <= 25, String(moved))
  })

  it('tries for a minute after a wait, and asks for no reading in the past', () => {
    const { order, displaced, clock } = ordered()
    for (let times = 0; times < MAX_MOVES + 1; times++) displaced(1000)
    clock.ms += FIRST_WAIT_MS
    // The move fails each time, so it is not counted.
    for (let times = 0; times < 3; times++) assert.ok(order.admit(KEY))
    assert.equal(order.nextDueMs(), clock.ms + 60_000)
    clock.ms += 60_000
    assert.equal(order.admit(KEY), false)
    assert.equal(order.nextDueMs(), clock.ms + 2 * FIRST_WAIT_MS)
    order.keepOnly(new Set())
    assert.equal(order.nextDueMs(), undefined)
  })

  it('does not count moves of long ago', () => {
    const { order, displaced } = ordered()
    for (let times = 0; times < 20; times++) assert.equal(displaced(MOVES_WITHIN_MS / 2 + 1), true)
    assert.equal(order.nextDueMs(), undefined)
  })

  it('ends a contest when the jump stays first after a later move', () => {
    const { order, displaced, clock } = ordered()
    for (let times = 0; times < MAX_MOVES + 1; times++) displaced(1000)
    displaced(FIRST_WAIT_MS)
    order.isFirst(KEY)
    assert.notEqual(order.nextDueMs(), undefined)
    assert.equal(order.nextDueMs(), clock.ms + 60_000)
    clock.ms += 60_000
    order.isFirst(KEY)
    assert.deepEqual([order.nextDueMs(), displaced(0)], [undefined, true])
  })

  it('ends a contest when the other rule goes away', () => {
    const { order, displaced, clock } = ordered()
    for (let times = 0; times < MAX_MOVES + 1; times++) displaced(1000)
    clock.ms += 60_000
    order.isFirst(KEY)
    assert.equal(order.nextDueMs(), undefined)
  })
})
