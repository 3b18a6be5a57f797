/**
 * One form for each meaning: a rule that was written and one that was read are compared in it. A
 * single network is no list, as nft prints it, and networks that touch are one.
 */
import type { IpFamily } from '../values/protocol.ts'
import { canonicalNetwork, canonicalNetworks } from './networks.ts'
import type { NftStatement } from './types.ts'

/** The statement as it is read back from the kernel. */
export function canonicalStatement(statement: NftStatement, family: IpFamily): NftStatement {
  if (statement.kind === 'network') return { ...statement, cidr: canonicalNetwork(statement.cidr, family) }
  if (statement.kind !== 'networks') return statement
  const cidrs = canonicalNetworks(statement.cidrs, family)
  const [only, ...more] = cidrs
  return only === undefined || more.length > 0
    ? { ...statement, cidrs }
    : { kind: 'network', field: statement.field, cidr: only }
}
