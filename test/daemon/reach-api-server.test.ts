/** Each address of the API server is looked at, whatever happens to the others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type KernelWays, reachApiServer } from '../../src/daemon/reach-api-server.ts'
import { recordingLog } from '../support/recording-log.ts'

const STUCK = new Error('Device or resource busy')
const REFUSED = new Error('Operation not permitted')
const OTHERS = ['10.7.0.4', '10.7.0.5', '10.7.0.6', '127.0.0.1']
const API_SERVER = new Map(['10.7.0.2', '10.7.0.3', ...OTHERS].map((address) => [address, new Set([6443])]))

test('reachApiServer goes on after an address that it cannot remove, and after one that it cannot find out about', async () => {
  const log = recordingLog()
  let closed = 0
  const ways: KernelWays = {
    async isLocal(address) {
      if (address === '10.7.0.3') throw REFUSED
      return address !== '10.7.0.6'
    },
    async remove(address) {
      if (address === '10.7.0.2') return STUCK
      return address === '10.7.0.4' ? 'no-virtual-ip' : 'removed'
    },
    close: () => closed++,
  }
  await reachApiServer(API_SERVER, log, () => ways)
  assert.deepEqual(
    log.lines.map(({ message, fields }) => [message, fields]),
    [
      [
        'Cannot remove an address of the API server from the virtual IPs of this node',
        { address: '10.7.0.2', error: STUCK },
      ],
      [
        'Cannot find out whether an address of the API server is a virtual IP of this node',
        { address: '10.7.0.3', error: REFUSED },
      ],
      ['An address of the API server was a virtual IP of this node, and is removed', { address: '10.7.0.5' }],
    ],
  )
  assert.equal(closed, 1)
})

test('reachApiServer never rejects where the kernel cannot be asked', async () => {
  const log = recordingLog()
  await reachApiServer(API_SERVER, log, () => {
    throw REFUSED
  })
  assert.equal(log.lines.length, API_SERVER.size)
})
