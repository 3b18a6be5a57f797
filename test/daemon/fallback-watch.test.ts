import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeProxyConfiguration } from '../../src/config/types.ts'
import { watchFallback } from '../../src/daemon/fallback-watch.ts'
import { eventually } from '../support/deadline.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import { recordingLog } from '../support/recording-log.ts'

const HAS_ALL =
  'The kernel has everything for ipvs mode now; the next start of this program uses it, or kubeIPVS.switchBack: true'
const LACKS = 'The kernel lacks a part of what ipvs mode needs; iptables mode stays'

/** A kernel that answers with these texts in turn, and with the last one from then on. */
function world(switchBack: boolean, answers: readonly (readonly string[] | Error)[]) {
  const log = recordingLog(0)
  let configuration: KubeProxyConfiguration = defaultConfiguration('ipvs')
  configuration = { ...configuration, kubeIPVS: { ...configuration.kubeIPVS, switchBack } }
  let asked = 0
  let ready = 0
  const watch = watchFallback({
    configuration: () => configuration,
    onReady: () => ready++,
    log,
    ask: async () => {
      const answer = answers[Math.min(asked++, answers.length - 1)]
      if (answer instanceof Error) throw answer
      return answer ?? []
    },
    periodMs: 1,
  })
  // The timer does not keep the process alive.
  const alive = setInterval(() => undefined, 1000)
  const end = (): void => {
    watch.close()
    clearInterval(alive)
  }
  const info = () => log.lines.filter(({ level }) => level === 'info')
  return { watch, end, info, asked: () => asked, ready: () => ready }
}

test('watchFallback asks again and again, survives failures, and logs each answer once', async () => {
  const scheduler = ['scheduler rr (module ip_vs_rr)', 'match set of IPv6 (module xt_set)']
  const { end, info, asked, ready } = world(false, [['no IPVS'], ['no IPVS'], new Error('no answer'), scheduler, []])
  await eventually(() => assert.ok(asked() > 8))
  end()
  assert.deepEqual(
    info().map(({ message, fields }) => [message, fields['lacks']]),
    [
      [LACKS, 'no IPVS'],
      [LACKS, 'scheduler rr (module ip_vs_rr); match set of IPv6 (module xt_set)'],
      [HAS_ALL, undefined],
    ],
  )
  assert.equal(ready(), 0)
})

test('watchFallback requests the return to ipvs mode only when nothing is missing', async () => {
  const { end, info, ready } = world(true, [['no IPVS'], ['scheduler rr (module ip_vs_rr)'], []])
  await eventually(() => assert.ok(ready() > 0))
  end()
  assert.deepEqual(
    info().map(({ fields }) => fields['lacks']),
    ['no IPVS', 'scheduler rr (module ip_vs_rr)'],
  )
})

test('watchFallback asks at once when it is told to, and once more when a question is under way', async () => {
  const first = Promise.withResolvers<readonly string[]>()
  let asked = 0
  const watch = watchFallback({
    configuration: () => defaultConfiguration('ipvs'),
    onReady: () => undefined,
    log: recordingLog(),
    ask: () => {
      asked++
      return asked === 1 ? first.promise : Promise.resolve(['no IPVS'])
    },
  })
  for (let times = 0; times < 3; times++) watch.ask()
  assert.equal(asked, 1)
  first.resolve(['no IPVS'])
  await eventually(() => assert.equal(asked, 2))
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(asked, 2)
  watch.close()
})

test('watchFallback reports nothing after it was closed', async () => {
  const log = recordingLog()
  const answer = Promise.withResolvers<readonly string[]>()
  let asked = 0
  const watch = watchFallback({
    configuration: () => defaultConfiguration('ipvs'),
    onReady: () => assert.fail('closed'),
    log,
    ask: () => {
      asked++
      return answer.promise
    },
  })
  watch.ask()
  watch.close()
  answer.resolve([])
  await new Promise((resolve) => setTimeout(resolve, 20))
  assert.deepEqual([asked, log.lines], [1, []])
})

test('watchFallback ignores an answer about a configuration that has changed meanwhile, and asks again', async () => {
  const configured = (switchBack: boolean): KubeProxyConfiguration => {
    const configuration = defaultConfiguration('ipvs')
    return { ...configuration, kubeIPVS: { ...configuration.kubeIPVS, switchBack } }
  }
  let configuration = configured(true)
  const asked: boolean[] = []
  const answers: (() => void)[] = []
  let ready = 0
  const watch = watchFallback({
    configuration: () => configuration,
    onReady: () => ready++,
    log: recordingLog(),
    ask: ({ kubeIPVS }) => {
      asked.push(kubeIPVS.switchBack)
      return new Promise((resolve) => answers.push(() => resolve([])))
    },
  })
  watch.ask()
  configuration = configured(false)
  watch.ask()
  answers[0]?.()
  await eventually(() => assert.deepEqual(asked, [true, false]))
  assert.equal(ready, 0)
  answers[1]?.()
  configuration = configured(true)
  watch.ask()
  await eventually(() => assert.deepEqual(asked, [true, false, true]))
  answers[2]?.()
  await eventually(() => assert.equal(ready, 1))
  watch.close()
})
