import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Rivals } from '../../src/daemon/rivals.ts'
import type { Occurrence } from '../../src/events/event-objects.ts'
import type { OtherProxies } from '../../src/node/other-proxies.ts'
import { ProblemLog } from '../../src/serve/problem-log.ts'
import { recordingLog } from '../support/recording-log.ts'

const MINUTE_MS = 60_000
const KUBE_PROXY: OtherProxies = { found: [{ pid: 812, name: 'kube-proxy' }], hidden: undefined }

function world(context: TestContext, proxies = KUBE_PROXY) {
  context.mock.timers.enable({ apis: ['setTimeout'] })
  const log = recordingLog(0)
  const clock = { ms: 0 }
  const events: Occurrence[] = []
  const asked: (readonly number[])[] = []
  const rivals = new Rivals({
    nodeName: 'node0',
    problems: new ProblemLog(log),
    events: { record: (event) => void events.push(event), close: async () => undefined },
    now: () => clock.ms,
    find: async (writers) => {
      asked.push(writers)
      return proxies
    },
  })
  return {
    rivals,
    log,
    events,
    asked,
    repair: (times: number, key = '10.96.0.1:80/tcp') =>
      rivals.passed({ repairs: [{ table: 'virtual-servers', key, commands: [], times }] }),
    async after(ms: number) {
      clock.ms += ms
      context.mock.timers.tick(ms)
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

describe('Rivals', () => {
  it('reports nothing after it was closed, even when it has begun to look for the process', async (context) => {
    const { rivals, repair, after, log, events, asked } = world(context)
    repair(3)
    rivals.close()
    await after(0)
    assert.deepEqual([asked.length, log.lines, events], [1, [], []])
  })

  it('reports the third repair of a key with the process, as a problem and as an Event on the Node', async (context) => {
    const { repair, after, log, events } = world(context)
    repair(1)
    repair(2)
    await after(0)
    assert.deepEqual([log.lines, events], [[], []])
    repair(3)
    await after(0)
    assert.equal(log.lines.length, 1)
    const reason = String(log.lines[0]?.fields['reason'])
    assert.match(
      reason,
      /^another program changed 10\.96\.0\.1:80\/tcp of virtual-servers 3 times, .*: "kube-proxy" \(pid 812\); /,
    )
    assert.equal(log.lines[0]?.fields['object'], 'node0')
    assert.deepEqual(events, [
      {
        regarding: { kind: 'Node', name: 'node0', apiVersion: 'v1' },
        type: 'Warning',
        reason: 'AnotherProxyWrites',
        action: 'Repair',
        note: reason,
      },
    ])
  })

  it('reports at most once in ten minutes, and that nothing was changed for ten minutes', async (context) => {
    const { repair, after, log, events } = world(context)
    for (let minute = 0; minute < 25; minute++) {
      repair(minute + 3, `10.96.0.${minute}:80/tcp`)
      await after(MINUTE_MS)
    }
    assert.deepEqual([log.lines.length, events.length], [3, 3])
    await after(10 * MINUTE_MS)
    await after(10 * MINUTE_MS)
    assert.deepEqual([log.lines.length, log.lines.at(-1)?.message], [4, 'Problems with an object resolved'])
    repair(3)
    await after(0)
    assert.equal(log.lines.length, 5)
  })

  it('asks for the last sixteen writers of the last minute', async (context) => {
    const { rivals, repair, after, asked } = world(context)
    rivals.wrote(99)
    await after(MINUTE_MS + 1)
    for (let portId = 100; portId < 120; portId++) rivals.wrote(portId)
    rivals.wrote(105)
    repair(3)
    await after(0)
    assert.deepEqual(asked, [
      [...Array.from({ length: 15 }, (_, index) => index + 104).filter((id) => id !== 105), 119, 105],
    ])
  })

  it('quotes hostile names, and says when no process can be seen', async (context) => {
    const hostile = { found: [{ pid: 7, name: 'a"\n\u001b[31m' }], hidden: undefined }
    const first = world(context, hostile)
    first.repair(3)
    await first.after(0)
    assert.match(first.events[0]?.note ?? '', /: "a\\"\\n\\x1b\[31m" \(pid 7\);/)
    context.mock.timers.reset()
    const second = world(context, { found: [], hidden: 'hidden by hidepid' })
    second.repair(3)
    await second.after(0)
    assert.match(
      second.events[0]?.note ?? '',
      /: no process with the name of a service proxy is visible; hidden by hidepid;/,
    )
  })
})
