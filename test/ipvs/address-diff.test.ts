/** Operations on addresses of kube-ipvs0, compared with a model of what the kernel allows. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  ADDRESSES,
  type AddressOperation,
  type Binding,
  type BoundAddress,
  diffAddress,
  formatAddressOperation,
  hasBinding,
  hostAddress,
  liveAddresses,
} from '../../src/ipvs/address-diff.ts'
import { familyOf } from '../../src/values/address.ts'

const V4 = '10.96.0.1'
const V6 = 'fd00::1'

const binding = (address: string): fc.Arbitrary<Binding> =>
  familyOf(address) === 'IPv4'
    ? fc.record({ prefixLength: fc.constantFrom(32, 24, 8), peer: fc.constantFrom(undefined, '10.5.5.5') })
    : fc.record({ prefixLength: fc.constantFrom(128, 64), peer: fc.constantFrom(undefined, 'fd00::2') })
const name = (it: Binding): string => `${it.prefixLength} ${it.peer ?? ''}`

/** A possible state of the kernel: an IPv6 address is on a link once. */
const live: fc.Arbitrary<BoundAddress> = fc.constantFrom(V4, V6).chain((address) =>
  fc
    .uniqueArray(binding(address), { selector: name, minLength: 1, maxLength: address === V4 ? 4 : 1 })
    .map((bindings) => {
      const [found] = liveAddresses(bindings.map((it) => ({ address, ...it }))).values()
      assert.ok(found !== undefined)
      return found
    }),
)

/** Runs operations in the reconciler's order, additions first; fails as the kernel would. */
function run(from: BoundAddress | undefined, ops: readonly AddressOperation[]): BoundAddress | undefined {
  let now = from
  for (const direction of ['add', 'remove'] as const)
    for (const op of ops.filter((it) => ADDRESSES.direction(it) === direction)) {
      const isThere = hasBinding(now, op)
      if (op.kind === 'unbind') assert.ok(isThere, 'EADDRNOTAVAIL')
      else if (familyOf(op.address) === 'IPv6') assert.equal(now, undefined, 'EEXIST')
      else assert.ok(!isThere, 'EEXIST')
      now = ADDRESSES.step(now, op)
    }
  return now
}

describe('diffAddress', () => {
  it('does not change a host address', () => {
    for (const address of [V4, V6]) assert.deepEqual(diffAddress(hostAddress(address), hostAddress(address)), [])
  })

  it('reaches exactly the host address from every possible state, and removes everything when none is wanted', () => {
    fc.assert(
      fc.property(live, (before) => {
        const wanted = hostAddress(before.address)
        const after = run(before, diffAddress(wanted, before))
        assert.ok(after !== undefined && ADDRESSES.equal(after, wanted))
        assert.equal(run(before, diffAddress(undefined, before)), undefined)
      }),
    )
    for (const address of [V4, V6]) {
      const made = run(undefined, diffAddress(hostAddress(address), undefined))
      assert.ok(made !== undefined && ADDRESSES.equal(made, hostAddress(address)))
    }
  })

  it('never removes the last binding of a wanted IPv4 address', () => {
    fc.assert(
      fc.property(live, (before) => {
        fc.pre(before.address === V4)
        let now: BoundAddress | undefined = before
        const ops = diffAddress(hostAddress(V4), before)
        for (const op of ops.toSorted((a, b) => (ADDRESSES.direction(a) < ADDRESSES.direction(b) ? -1 : 1))) {
          now = ADDRESSES.step(now, op)
          assert.ok(now !== undefined)
        }
      }),
    )
  })

  it('adds an IPv4 host address in addition to another binding, and replaces another IPv6 binding', () => {
    const commands = (address: string, ...bindings: Binding[]) =>
      diffAddress(hostAddress(address), { address, bindings }).map((op) => [
        ADDRESSES.direction(op),
        formatAddressOperation(op),
      ])
    assert.deepEqual(commands(V4, { prefixLength: 24 }, { prefixLength: 32, peer: '10.5.5.5' }), [
      ['add', 'ip address add 10.96.0.1/32 dev kube-ipvs0'],
      ['remove', 'ip address delete 10.96.0.1/24 dev kube-ipvs0'],
      ['remove', 'ip address delete 10.96.0.1 peer 10.5.5.5/32 dev kube-ipvs0'],
    ])
    assert.deepEqual(commands(V6, { prefixLength: 64 }), [
      ['add', 'ip address delete fd00::1/64 dev kube-ipvs0'],
      ['add', 'ip address add fd00::1/128 dev kube-ipvs0'],
    ])
  })
})
