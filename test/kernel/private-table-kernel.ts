/** A kernel for tests of private tables: for each test a network namespace of its own, and a connection. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach } from 'node:test'
import { openNetfilter } from '../../native/open.ts'
import type { NetlinkConnection } from '../../src/netlink/connection.ts'
import { PrivateTables } from '../../src/nftables/private-table.ts'
import type { NftOperation } from '../../src/nftables/types.ts'
import { enterNewNamespace } from '../support/net-namespace.ts'

const { signal } = new AbortController()

export interface KernelOfTest {
  /** Owned tables belong to its socket. */
  readonly netlink: NetlinkConnection
  readonly tables: PrivateTables
  /** Fails the test where one of the operations is refused. */
  apply(...ops: readonly NftOperation[]): Promise<void>
}

/** To be called once, where a test file begins. */
export function freshKernel(): KernelOfTest {
  let open: Pick<KernelOfTest, 'netlink' | 'tables'> | undefined
  const opened = (): NonNullable<typeof open> => {
    assert.ok(open !== undefined, 'outside of a test')
    return open
  }
  beforeEach(() => {
    enterNewNamespace()
    const netlink = openNetfilter()
    open = { netlink, tables: new PrivateTables(netlink, { families: ['IPv4', 'IPv6'] }) }
  })
  afterEach(() => open?.netlink.close())
  return {
    get netlink() {
      return opened().netlink
    },
    get tables() {
      return opened().tables
    },
    async apply(...ops) {
      for (const error of await opened().tables.apply(ops, signal)) assert.ifError(error)
    },
  }
}
