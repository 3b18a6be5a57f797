/** The compiled clients of steady traffic, against their own server on loopback. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { compile } from '../../dev/bench/floor.ts'
import { holdConnections, rateOfConnections } from '../../dev/bench/traffic-client.ts'
import { needs } from '../kernel/needs.ts'
import { eventually } from '../support/deadline.ts'

const PORT = 18_971
const places = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, port: PORT }))

describe('steady traffic', needs('program:gcc'), () => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-clients-test-'))
  let program = ''
  let server: ChildProcess
  before(async () => {
    const compiled = await compile(join(import.meta.dirname, '../../dev/bench/traffic.c'), folder)
    assert.ok('program' in compiled, JSON.stringify(compiled))
    program = compiled.program
    server = spawn(program, ['serve', `${PORT}`, '2'], { stdio: ['ignore', 'pipe', 'inherit'] })
    if (server.stdout !== null) await once(server.stdout, 'data')
  })
  after(() => {
    server.kill('SIGKILL')
    rmSync(folder, { recursive: true })
  })

  it('counts every connection that the server drops, and every new one that it refuses', async () => {
    const held = await holdConnections({ program, places, count: 100, periodMs: 20 })
    const rate = await rateOfConnections({ program, places, perSecond: 200 })
    await eventually(async () => assert.ok((await rate.report()).made >= 100))
    const before = await held.report()
    assert.deepEqual([before.connections, before.dropped], [100, 0])
    assert.ok(before.responses >= 300, JSON.stringify(before))
    assert.ok(before.longestMs > 0)
    assert.equal((await rate.report()).failed, 0)

    const ended = once(server, 'exit')
    server.kill('SIGKILL')
    await ended
    await eventually(async () => assert.ok((await rate.report()).failed >= 10))
    await eventually(async () => assert.equal((await held.report()).dropped, 100))
    assert.match(held.failures, /^failed at [0-9:.]+: 127\.0\.0\.[12] 18971 after \d+ ms, [1-9]\d* responses: /)
    assert.match(rate.failures, /0 responses: Connection refused/)
    await held.close()
    await rate.close()
  })

  it('rejects when a connection cannot be opened', async () => {
    const closed = [{ address: '127.0.0.1', port: 1 }]
    await assert.rejects(holdConnections({ program, places: closed, count: 1, periodMs: 10 }), /Connection refused/)
  })
})
