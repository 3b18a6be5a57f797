import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { listenerUser } from '../../src/node/listeners.ts'

const HEADER = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode'
const line = (local: string, user: number, state = '0A'): string =>
  `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  ${user}        0 1234 1 0000000000000000 100 0 0 10 0`

function proc(t: TestContext, tcp: readonly string[], tcp6: readonly string[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-proc-'))
  t.after(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'net'))
  writeFileSync(join(folder, 'net/tcp'), [HEADER, ...tcp, ''].join('\n'))
  writeFileSync(join(folder, 'net/tcp6'), [HEADER, ...tcp6, ''].join('\n'))
  return folder
}

const ANY6 = '0'.repeat(32)

test('listenerUser is the user of the address itself, then of all addresses, of either family', async (t) => {
  const both = proc(t, [line('00000000:2809', 0), line('0100007F:2809', 1000), line('0100007F:2809', 7, '01')], [])
  assert.equal(await listenerUser('127.0.0.1', 10_249, both), 1000)
  assert.equal(await listenerUser('192.0.2.1', 10_249, both), 0)
  assert.equal(await listenerUser('127.0.0.1', 10_250, both), undefined)
  assert.equal(await listenerUser('::1', 10_249, both), undefined)
  const ofIpv6 = proc(t, [], [line(`${ANY6}:2809`, 33), line('00000000000000000000000001000000:280A', 44)])
  assert.equal(await listenerUser('127.0.0.1', 10_249, ofIpv6), 33)
  assert.equal(await listenerUser('::1', 10_250, ofIpv6), 44)
  assert.equal(await listenerUser('node7', 10_249, ofIpv6), undefined)
  assert.equal(await listenerUser('127.0.0.1', 10_249, '/nonexistent'), undefined)
})

test('listenerUser knows a listener of this process', async (t) => {
  const server = createServer()
  t.after(() => server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // it listens on a port
  assert.equal(await listenerUser('127.0.0.1', port), process.getuid?.())
})
