import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ServiceNames } from '../../src/cli/service-names.ts'
import type { DaemonClient } from '../../src/inspect/daemon-client.ts'

test('ServiceNames asks again for new keys after 10 s, for known ones after a minute, and keeps what it knows', async () => {
  let nowMs = 0
  let asked = 0
  let answer: Awaited<ReturnType<DaemonClient['names']>> = { unknown: 'no-daemon', reason: 'no daemon answers' }
  const daemon = {
    names: async () => {
      asked++
      return answer
    },
  }
  const names = new ServiceNames(daemon, () => nowMs)
  const after = async (ms: number, ...keys: readonly string[]): Promise<number> => {
    nowMs += ms
    await names.refresh(keys)
    return asked
  }
  assert.equal(await after(0, 'a'), 1)
  assert.deepEqual([names.reason, names.nameOf('a')], ['no daemon answers', undefined])
  answer = new Map([['a', { key: 'a', servicePort: 'demo/web:http', roles: [] }]])
  assert.equal(await after(9000, 'a'), 1)
  assert.equal(await after(1000, 'a'), 2)
  assert.deepEqual([names.reason, names.nameOf('a')], [undefined, 'demo/web:http'])
  assert.equal(await after(59_000, 'a'), 2)
  assert.equal(await after(0, 'a', 'b'), 3)
  answer = { unknown: 'no-answer', reason: 'late' }
  assert.equal(await after(60_000, 'a'), 4)
  assert.deepEqual([names.reason, names.nameOf('a')], [undefined, 'demo/web:http'])
})
