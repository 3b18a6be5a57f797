/** Which tables are faulty, with tables in memory whose failures the test chooses. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { KernelError } from '../../../src/netlink/errors.ts'
import type { FrontendKey } from '../../../src/service/frontends.ts'
import { CodedError } from '../../../src/values/errors.ts'
import { frontendOf } from '../../support/frontends.ts'
import { MemoryWorld, rulesWritten } from '../../support/memory-world.ts'

const signal = new AbortController().signal
const EPERM = 1
const ENOMEM = 12
const EPROTONOSUPPORT = 93
const EINVAL = 22

/** The tables that are faulty after a start with these frontends, in which commands fail for a reason. */
async function troubles(
  addresses: readonly string[],
  fails: (command: string) => boolean,
  reason: Error = new KernelError(EINVAL, 'TEST'),
) {
  const memory = new MemoryWorld(['IPv4', 'IPv6'])
  const dataplane = memory.dataplane()
  memory.failure = reason
  memory.fails = fails
  for (const address of addresses) {
    const key: FrontendKey = `${address}:80/tcp`
    dataplane.frontend(key, frontendOf({ key, address, bind: true }, ['1.1.1.1']))
  }
  for (let pass = 0; pass < 3; pass++) {
    await dataplane.pass({ signal, mayRemove: true })
    await rulesWritten(dataplane)
  }
  return dataplane.tables
    .flatMap((table) => table.health())
    .flatMap(({ what, families, wrong }) => (wrong ? [`${what} ${families.join()}`] : []))
}

const THREE = ['10.96.0.1', '10.96.0.2', '10.96.0.3']

describe('the health of tables of ipvs mode', () => {
  it('reports no trouble after a start without failures', async () => {
    assert.deepEqual(await troubles(THREE, () => false), [])
  })

  it('reports no trouble for items that fail, however many', async () => {
    const good = /10\.96\.0\.1\b/
    assert.deepEqual(await troubles(THREE, (command) => command.startsWith('ipvsadm') && !good.test(command)), [])
    assert.deepEqual(await troubles(THREE, (command) => command.startsWith('ip address') && !good.test(command)), [])
    assert.deepEqual(await troubles(['10.96.0.1'], (command) => command.startsWith('ipvsadm')), [])
  })

  it('reports a table in which nothing can be written', async () => {
    assert.deepEqual(await troubles(THREE, (command) => command.startsWith('ipvsadm')), ['virtual-servers IPv4,IPv6'])
    assert.deepEqual(await troubles(THREE, (command) => command.startsWith('ipset add')), ['set-entries IPv4,IPv6'])
  })

  it('reports a fault of the table at the first key that shows it', async () => {
    const bad = /10\.96\.0\.2\b/
    const fails = (command: string): boolean => command.startsWith('ipvsadm') && bad.test(command)
    assert.deepEqual(await troubles(THREE, fails, new KernelError(EPERM, 'TEST')), ['virtual-servers IPv4,IPv6'])
  })

  it('distinguishes a fault of the table from one of an item by the reason', async () => {
    const rows: readonly [reason: Error, isTableFault: boolean][] = [
      ...['netlink-overrun', 'netlink-truncated', 'netlink-malformed', 'netlink-timeout', 'device-missing'].map(
        (code): [Error, boolean] => [new CodedError(code, 'test'), true],
      ),
      [new KernelError(ENOMEM, 'TEST'), true],
      // What a Service can bring about: an address that is refused, a protocol that the kernel was built without.
      [new KernelError(EINVAL, 'TEST'), false],
      [new KernelError(EPROTONOSUPPORT, 'TEST'), false],
      [new CodedError('netlink-unencodable', 'test'), false],
      [new Error('unknown'), false],
    ]
    for (const [reason, isTableFault] of rows) {
      const fails = (command: string): boolean => command.startsWith('ip address') && command.includes('10.96.0.2')
      const expected = isTableFault ? ['addresses IPv4,IPv6'] : []
      assert.deepEqual(await troubles(THREE, fails, reason), expected, String(reason))
    }
  })

  it('reports the device, and sets for their family', async () => {
    assert.deepEqual(await troubles([], (command) => command.startsWith('ip link')), ['device IPv4,IPv6'])
    assert.deepEqual(await troubles([], (command) => command.startsWith('ipset create KUBE-CLUSTER-IP ')), [
      'sets IPv4 IPv4',
    ])
  })
})
