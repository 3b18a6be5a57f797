import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nameserversOf, readNameservers } from '../../src/node/resolvers.ts'

test('nameserversOf reads the lines of resolv.conf(5)', () => {
  const text =
    '# nameserver 1.1.1.1\nsearch a.b\nnameserver 10.0.0.53\nnameserver\tFD00::0053\nnameserver fe80::1%eth0\nnameserver name\noptions ndots:5\n nameserver 9.9.9.9\n'
  assert.deepEqual(nameserversOf(text), ['10.0.0.53', 'fd00::53', 'fe80::1'])
})

test('readNameservers takes a missing file for one without any', async () => {
  assert.deepEqual(await readNameservers('/nonexistent/resolv.conf'), [])
})
