/** Random flows, of both families. */
import fc from 'fast-check'
import type { Flow, FlowTuple } from '../../src/conntrack/types.ts'
import { readAddress } from '../../src/values/address.ts'
import { IP_FAMILIES, type IpFamily } from '../../src/values/protocol.ts'

const LENGTH = { IPv4: 4, IPv6: 16 } as const

export const someAddress = (family: IpFamily): fc.Arbitrary<string> =>
  fc.uint8Array({ minLength: LENGTH[family], maxLength: LENGTH[family] }).map((bytes) => readAddress(bytes, 0, family))

const port = fc.nat(0xffff)
/** assert.deepEqual distinguishes objects without a prototype. */
const PLAIN = { noNullPrototype: true }

const someTuple = (family: IpFamily): fc.Arbitrary<FlowTuple> =>
  fc.record(
    {
      source: someAddress(family),
      sourcePort: port,
      destination: someAddress(family),
      destinationPort: port,
      zone: fc.oneof(fc.constant(0), fc.nat(0xffff)),
    },
    PLAIN,
  )

export const someFlow: fc.Arbitrary<Flow> = fc.constantFrom(...IP_FAMILIES).chain((family) =>
  fc.record(
    {
      family: fc.constant(family),
      protocol: fc.constantFrom('tcp' as const, 'udp' as const, 'sctp' as const),
      original: someTuple(family),
      reply: someTuple(family),
      zone: fc.oneof(fc.constant(0), fc.nat(0xffff)),
      id: fc.nat(0xffffffff),
    },
    PLAIN,
  ),
)
