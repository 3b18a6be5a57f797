import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { nameserversOf, processorCount, readNameservers } from '../../src/node/host.ts'

test('nameserversOf reads the lines of resolv.conf(5)', () => {
  const text =
    '# nameserver 1.1.1.1\nsearch a.b\nnameserver 10.0.0.53\nnameserver\tFD00::0053\nnameserver fe80::1%eth0\nnameserver name\noptions ndots:5\n nameserver 9.9.9.9\n'
  assert.deepEqual(nameserversOf(text), ['10.0.0.53', 'fd00::53', 'fe80::1'])
})

test('readNameservers finds none where the file is missing', async () => {
  assert.deepEqual(await readNameservers('/nonexistent/resolv.conf'), [])
})

test('processorCount counts the online processors of the machine', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'kube-ipvs-host-'))
  t.after(() => rmSync(root, { recursive: true }))
  mkdirSync(`${root}/sys/devices/system/cpu`, { recursive: true })
  for (const [online, count] of [
    ['0', 1],
    ['0-3', 4],
    ['0-1,4,6-7', 5],
  ] as const) {
    writeFileSync(`${root}/sys/devices/system/cpu/online`, `${online}\n`)
    assert.equal(processorCount(root), count)
  }
  writeFileSync(`${root}/sys/devices/system/cpu/online`, '\n')
  assert.ok(processorCount(root) >= 1)
  assert.ok(processorCount(join(root, 'nothing')) >= 1)
})
