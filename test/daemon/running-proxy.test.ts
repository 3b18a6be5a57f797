import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { defaultConfiguration } from '../support/configuration.ts'
import type { KubeProxyConfiguration, ProxyMode } from '../../src/config/types.ts'
import type { Handover } from '../../src/daemon/proxy.ts'
import { type PreparedProxy, type ProxyPurpose, RunningProxy } from '../../src/daemon/running-proxy.ts'
import type { Metrics } from '../../src/metrics/metrics.ts'
import { CodedError } from '../../src/values/errors.ts'
import { recordingLog } from '../support/recording-log.ts'

const MINUTE_MS = 60_000

/** Proxies without a kernel: what happens to them in which order. */
function world(t: TestContext, switchBack = false) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const log = recordingLog()
  const events: string[] = []
  const seen: string[] = []
  const kernel = {
    lacks: [] as string[],
    error: undefined as Error | undefined,
    /** A new proxy has opened it, and the proxy before has let go of it. */
    opened: Promise.resolve(),
    released: Promise.resolve(),
  }
  let nowMs = 0
  let count = 0
  const failures: ((error: CodedError) => void)[] = []
  const prepared: WeakRef<object>[] = []
  let last: Handover | undefined
  const handover = (number: number): Handover => {
    last = { close: async () => void seen.push(`close what ${number} left`) } as Handover // nothing else is used here
    return last
  }
  const prepare = async (
    wanted: KubeProxyConfiguration,
    { isReplacement, mayFallBack }: ProxyPurpose,
  ): Promise<PreparedProxy> => {
    if (kernel.error !== undefined) throw kernel.error
    if (wanted.mode === 'ipvs' && kernel.lacks.length > 0 && !mayFallBack)
      throw new CodedError('nftables-missing', kernel.lacks.join('; '))
    const number = ++count
    const mode: ProxyMode = wanted.mode === 'ipvs' && kernel.lacks.length > 0 ? 'iptables' : wanted.mode
    const saw = (what: string) => async (): Promise<void> => void seen.push(`${what} ${number} ${mode}`)
    await saw('prepare')()
    await kernel.opened
    const failed = Promise.withResolvers<never>()
    failed.promise.catch(() => undefined)
    failures.push(failed.reject)
    let configuration = wanted
    const proxy: PreparedProxy['proxy'] = {
      mode,
      get configuration() {
        return configuration
      },
      metrics: {} as Metrics, // nothing reads it here
      inspected: {} as PreparedProxy['proxy']['inspected'], // nothing reads it here
      failed: failed.promise,
      reconfigure: (next) => {
        configuration = next
        seen.push(`reconfigure ${number} ${mode}`)
      },
      close: async (isReplaced) => {
        await saw(isReplaced === true ? 'release' : 'close')()
        await kernel.released
        return isReplaced === true ? handover(number) : undefined
      },
    }
    const start = async (from?: Handover): Promise<void> => {
      if (isReplacement) assert.equal(from, last)
      await saw('start')()
    }
    const next: PreparedProxy = { proxy, start, discard: saw('discard') }
    prepared.push(new WeakRef(next))
    return next
  }
  const configured = (mode: ProxyMode): KubeProxyConfiguration => {
    const configuration = defaultConfiguration(mode)
    return { ...configuration, kubeIPVS: { ...configuration.kubeIPVS, switchBack } }
  }
  const running = (mode: ProxyMode): RunningProxy =>
    new RunningProxy(configured(mode), {
      prepare,
      once: false,
      nodeName: 'node0',
      events: { record: ({ reason }) => events.push(reason), close: async () => undefined },
      log,
      now: () => nowMs,
      ask: async () => kernel.lacks,
    })
  /** Time passes, and everything that is due happens. */
  const pass = async (ms = 0): Promise<void> => {
    nowMs += ms
    t.mock.timers.tick(ms)
    for (let turn = 0; turn < 10; turn++) {
      await new Promise((resolve) => setImmediate(resolve))
      t.mock.timers.tick(0)
    }
  }
  const taken = (): string[] => seen.splice(0)
  const warnings = (): string[] => log.lines.flatMap(({ level, message }) => (level === 'warn' ? [message] : []))
  return { running, configured, kernel, events, failures, prepared, pass, taken, warnings }
}

test('a change of the mode starts the new proxy with what the old one leaves, after it has opened the kernel', async (t) => {
  const { running, configured, kernel, pass, taken, warnings } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  assert.deepEqual(taken(), ['prepare 1 ipvs', 'start 1 ipvs'])
  const opened = Promise.withResolvers<void>()
  kernel.opened = opened.promise
  proxy.reconfigure(configured('iptables'))
  await pass()
  assert.deepEqual([taken(), proxy.mode], [['prepare 2 iptables'], 'ipvs'])
  opened.resolve()
  await pass()
  assert.deepEqual([taken(), proxy.mode], [['release 1 ipvs', 'start 2 iptables'], 'iptables'])
  assert.deepEqual(warnings(), [])
})

test('a proxy that was replaced, or that was prepared in vain, is kept by nothing', async (t) => {
  const { running, configured, kernel, prepared, pass } = world(t)
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void // --expose-gc makes it
  const proxy = running('ipvs')
  await proxy.start()
  for (const mode of ['iptables', 'ipvs', 'iptables'] as const) {
    proxy.reconfigure(configured(mode))
    await pass(20 * MINUTE_MS)
  }
  const opened = Promise.withResolvers<void>()
  kernel.opened = opened.promise
  proxy.reconfigure(configured('ipvs'))
  await pass(20 * MINUTE_MS)
  proxy.reconfigure(configured('iptables'))
  opened.resolve()
  await pass()
  collect()
  const kept = prepared.flatMap((one, index) => (one.deref() === undefined ? [] : [index + 1]))
  // The last stays until the next switch.
  assert.deepEqual(kept, [5])
  assert.equal(proxy.mode, 'iptables')
})

test('a mode that is changed and changed back while the next proxy opens the kernel is not switched', async (t) => {
  const { running, configured, kernel, pass, taken, warnings } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  taken()
  const opened = Promise.withResolvers<void>()
  kernel.opened = opened.promise
  proxy.reconfigure(configured('iptables'))
  await pass()
  proxy.reconfigure(configured('ipvs'))
  await pass()
  opened.resolve()
  await pass()
  assert.deepEqual(taken(), ['prepare 2 iptables', 'reconfigure 1 ipvs', 'discard 2 iptables'])
  await pass(30 * MINUTE_MS)
  assert.deepEqual([taken(), proxy.mode, proxy.configuration.mode, warnings()], [[], 'ipvs', 'ipvs', []])
})

test('a mode that is changed back while the old proxy ends is switched to again', async (t) => {
  const { running, configured, kernel, pass, taken } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  taken()
  const released = Promise.withResolvers<void>()
  kernel.released = released.promise
  proxy.reconfigure(configured('iptables'))
  await pass()
  assert.deepEqual(taken(), ['prepare 2 iptables', 'release 1 ipvs'])
  proxy.reconfigure(configured('ipvs'))
  await pass()
  // Neither a proxy that ends nor one that has not started gets a configuration.
  assert.deepEqual(taken(), [])
  released.resolve()
  await pass()
  assert.deepEqual(taken(), ['start 2 iptables', 'prepare 3 ipvs', 'release 2 iptables', 'start 3 ipvs'])
  assert.deepEqual([proxy.mode, proxy.configuration.mode], ['ipvs', 'ipvs'])
})

test('a switch back to ipvs mode is given up when kubeIPVS.switchBack is off before it happens', async (t) => {
  const { running, configured, kernel, pass, taken } = world(t, true)
  kernel.lacks = ['no IPVS']
  const proxy = running('ipvs')
  await proxy.start()
  kernel.lacks = []
  taken()
  const opened = Promise.withResolvers<void>()
  kernel.opened = opened.promise
  proxy.askKernel()
  await pass()
  assert.deepEqual(taken(), ['prepare 2 ipvs'])
  const on = configured('ipvs')
  proxy.reconfigure({ ...on, kubeIPVS: { ...on.kubeIPVS, switchBack: false } })
  await pass()
  opened.resolve()
  await pass(30 * MINUTE_MS)
  assert.deepEqual([taken(), proxy.mode], [['reconfigure 1 iptables', 'discard 2 ipvs'], 'iptables'])
})

test('a field that the next mode reads once and that changes while it opens the kernel is in force after the switch', async (t) => {
  const { running, configured, kernel, pass, taken } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  taken()
  const opened = Promise.withResolvers<void>()
  kernel.opened = opened.promise
  proxy.reconfigure(configured('iptables'))
  await pass()
  const next = configured('iptables')
  proxy.reconfigure({ ...next, iptables: { ...next.iptables, localhostNodePorts: false } })
  await pass()
  opened.resolve()
  await pass()
  assert.deepEqual(taken(), [
    'prepare 2 iptables',
    'discard 2 iptables',
    'prepare 3 iptables',
    'release 1 ipvs',
    'start 3 iptables',
  ])
  assert.equal(proxy.configuration.iptables.localhostNodePorts, false)
})

test('a kernel that loses IPVS while a switch of the configuration is taken back is not forgotten', async (t) => {
  const { running, configured, kernel, pass, taken } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  taken()
  const opened = Promise.withResolvers<void>()
  kernel.opened = opened.promise
  proxy.reconfigure(configured('iptables'))
  await pass()
  proxy.ipvsLost()
  proxy.reconfigure(configured('ipvs'))
  kernel.lacks = ['no IPVS']
  opened.resolve()
  await pass()
  assert.deepEqual(taken(), [
    'prepare 2 iptables',
    'reconfigure 1 ipvs',
    'discard 2 iptables',
    'prepare 3 iptables',
    'release 1 ipvs',
    'start 3 iptables',
  ])
})

test('a change of other live fields replaces nothing', async (t) => {
  const { running, configured, pass, taken } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  taken()
  const next = { ...configured('ipvs'), oomScoreAdj: 7 }
  proxy.reconfigure(next)
  await pass()
  assert.deepEqual([taken(), proxy.configuration.oomScoreAdj], [['reconfigure 1 ipvs'], 7])
})

test('a live field that changes while the next proxy opens the kernel is in force after the switch', async (t) => {
  const { running, configured, kernel, pass } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  const opened = Promise.withResolvers<void>()
  kernel.opened = opened.promise
  proxy.reconfigure(configured('iptables'))
  await pass()
  proxy.reconfigure({ ...configured('iptables'), oomScoreAdj: 7 })
  opened.resolve()
  await pass()
  assert.deepEqual([proxy.mode, proxy.configuration.oomScoreAdj], ['iptables', 7])
  await pass(30 * MINUTE_MS)
  assert.equal(proxy.mode, 'iptables')
})

test('the old proxy runs on with one warning when the new one cannot be prepared, and the switch is retried', async (t) => {
  const { running, configured, kernel, pass, taken, warnings } = world(t)
  const proxy = running('iptables')
  await proxy.start()
  taken()
  kernel.error = new CodedError('module-missing', 'no scheduler rr')
  proxy.reconfigure(configured('ipvs'))
  await pass()
  assert.deepEqual([taken(), proxy.mode], [[], 'iptables'])
  assert.deepEqual(warnings(), ['Cannot switch the mode; the running mode stays and the switch is retried'])
  kernel.error = undefined
  await pass(4 * MINUTE_MS)
  assert.deepEqual(taken(), [])
  await pass(MINUTE_MS)
  assert.deepEqual([taken().at(-1), proxy.mode], ['start 2 ipvs', 'ipvs'])
})

test('a mode that is configured again before a retry cancels the switch', async (t) => {
  const { running, configured, kernel, pass, taken } = world(t)
  const proxy = running('iptables')
  await proxy.start()
  taken()
  kernel.error = new CodedError('module-missing', 'no scheduler rr')
  proxy.reconfigure(configured('ipvs'))
  await pass()
  kernel.error = undefined
  proxy.reconfigure(configured('iptables'))
  await pass(30 * MINUTE_MS)
  assert.deepEqual([taken(), proxy.mode], [['reconfigure 1 iptables'], 'iptables'])
})

test('a field that only a new process can apply is not lost when the mode is configured again before a retry', async (t) => {
  const { running, configured, kernel, pass, taken } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  taken()
  kernel.error = new CodedError('iptables-missing', 'no iptables')
  proxy.reconfigure(configured('iptables'))
  await pass()
  // It has no effect in iptables mode, so it comes as any other field.
  const { ipvs } = configured('ipvs')
  const changed = { ipvs: { ...ipvs, scheduler: 'lc' } }
  proxy.reconfigure({ ...configured('iptables'), ...changed })
  await pass()
  proxy.reconfigure({ ...configured('ipvs'), ...changed })
  await assert.rejects(proxy.failed, { code: 'config-changed', message: /ipvs\.scheduler/ })
  assert.deepEqual([taken(), proxy.configuration.ipvs.scheduler], [[], ipvs.scheduler])
})

test('a fourth switch within 15 minutes waits for their end', async (t) => {
  const { running, configured, pass, taken, warnings } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  for (const mode of ['iptables', 'ipvs', 'iptables'] as const) {
    proxy.reconfigure(configured(mode))
    await pass()
    assert.equal(proxy.mode, mode)
    await pass(MINUTE_MS)
  }
  taken()
  proxy.reconfigure(configured('ipvs'))
  await pass(11 * MINUTE_MS)
  assert.deepEqual([taken(), proxy.mode], [[], 'iptables'])
  assert.deepEqual(warnings(), ['The mode was switched too often; the next switch waits'])
  await pass(MINUTE_MS)
  assert.equal(proxy.mode, 'ipvs')
})

test('after a fallback the proxy returns to ipvs mode, with an Event, only when nothing is missing and switchBack is on', async (t) => {
  const { running, configured, kernel, events, pass, taken } = world(t)
  kernel.lacks = ['no IPVS']
  const proxy = running('ipvs')
  await proxy.start()
  assert.deepEqual(taken(), ['prepare 1 iptables', 'start 1 iptables'])
  assert.equal(proxy.askKernel(), true)
  await pass(5 * MINUTE_MS)
  kernel.lacks = []
  await pass(5 * MINUTE_MS)
  assert.deepEqual([taken(), proxy.mode], [[], 'iptables'])
  const on = configured('ipvs')
  proxy.reconfigure({ ...on, kubeIPVS: { ...on.kubeIPVS, switchBack: true } })
  await pass()
  assert.deepEqual(taken(), ['reconfigure 1 iptables', 'prepare 2 ipvs', 'release 1 iptables', 'start 2 ipvs'])
  assert.deepEqual(events, ['ReturnedToIpvs'])
  assert.equal(proxy.askKernel(), false)
})

test('a return to ipvs mode that falls back again keeps the running proxy', async (t) => {
  const { running, kernel, pass, taken } = world(t, true)
  kernel.lacks = ['no IPVS']
  const proxy = running('ipvs')
  await proxy.start()
  taken()
  let asked = 0
  // The kernel has everything when it is asked, and not when it is opened.
  Object.defineProperty(kernel, 'lacks', { get: () => (++asked === 1 ? [] : ['no IPVS']) })
  proxy.askKernel()
  await pass()
  assert.deepEqual(taken(), ['prepare 2 iptables', 'discard 2 iptables'])
})

test('a proxy whose kernel has lost IPVS is replaced, whatever mode is possible then', async (t) => {
  const { running, kernel, pass, taken } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  taken()
  kernel.lacks = ['no IPVS']
  for (let times = 0; times < 5; times++) proxy.ipvsLost()
  await pass()
  assert.deepEqual(taken(), ['prepare 2 iptables', 'release 1 ipvs', 'start 2 iptables'])
  assert.equal(proxy.askKernel(), true)
})

test('only the failure of the proxy that runs ends the process', async (t) => {
  const { running, configured, failures, pass } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  proxy.reconfigure(configured('iptables'))
  await pass()
  failures[0]?.(new CodedError('old', 'closed long ago'))
  await pass()
  failures[1]?.(new CodedError('new', 'it runs'))
  await assert.rejects(proxy.failed, { code: 'new' })
})

test('a proxy that is closed while the next one opens the kernel starts no other', async (t) => {
  const { running, configured, kernel, pass, taken } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  const opened = Promise.withResolvers<void>()
  kernel.opened = opened.promise
  proxy.reconfigure(configured('iptables'))
  await pass()
  await proxy.close()
  await pass(30 * MINUTE_MS)
  assert.deepEqual(taken(), ['prepare 1 ipvs', 'start 1 ipvs', 'prepare 2 iptables', 'close 1 ipvs'])
  opened.resolve()
  await pass()
  assert.deepEqual(taken(), ['discard 2 iptables'])
})

test('a proxy that is closed while it is replaced starts no other', async (t) => {
  const { running, configured, kernel, pass, taken } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  taken()
  const released = Promise.withResolvers<void>()
  kernel.released = released.promise
  proxy.reconfigure(configured('iptables'))
  await pass()
  const closed = proxy.close()
  released.resolve()
  await closed
  await pass(30 * MINUTE_MS)
  assert.deepEqual(taken(), ['prepare 2 iptables', 'release 1 ipvs', 'discard 2 iptables', 'close what 1 left'])
})

test('another firewall is a new proxy of the same mode, and in iptables mode only a field', async (t) => {
  const { running, configured, pass, taken, warnings } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  taken()
  const withFirewall = (mode: ProxyMode, firewall: KubeProxyConfiguration['kubeIPVS']['firewall']) => {
    const configuration = configured(mode)
    return { ...configuration, kubeIPVS: { ...configuration.kubeIPVS, firewall } }
  }
  proxy.reconfigure(withFirewall('ipvs', 'nftables'))
  assert.equal(proxy.configuration.kubeIPVS.firewall, 'auto')
  await pass()
  assert.deepEqual(taken(), ['reconfigure 1 ipvs', 'prepare 2 ipvs', 'release 1 ipvs', 'start 2 ipvs'])
  assert.equal(proxy.configuration.kubeIPVS.firewall, 'nftables')
  // Changed and changed back before a switch begins.
  proxy.reconfigure(withFirewall('ipvs', 'iptables'))
  proxy.reconfigure(withFirewall('ipvs', 'nftables'))
  await pass()
  assert.deepEqual(taken(), ['reconfigure 2 ipvs', 'reconfigure 2 ipvs'])
  proxy.reconfigure(withFirewall('iptables', 'nftables'))
  await pass()
  assert.deepEqual(taken(), ['prepare 3 iptables', 'release 2 ipvs', 'start 3 iptables'])
  proxy.reconfigure(withFirewall('iptables', 'auto'))
  await pass()
  assert.deepEqual([taken(), proxy.mode, warnings()], [['reconfigure 3 iptables'], 'iptables', []])
})

test('a firewall that cannot work takes no node out of ipvs mode, and other fields apply meanwhile', async (t) => {
  const { running, configured, kernel, pass, taken, warnings } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  taken()
  kernel.lacks = ['no nf_tables']
  const configuration = configured('ipvs')
  const kubeIPVS = { ...configuration.kubeIPVS, firewall: 'nftables', maxRealServers: 7 } as const
  proxy.reconfigure({ ...configuration, kubeIPVS })
  await pass()
  assert.deepEqual(taken(), ['reconfigure 1 ipvs'])
  const { firewall, maxRealServers } = proxy.configuration.kubeIPVS
  assert.deepEqual([proxy.mode, firewall, maxRealServers], ['ipvs', 'auto', 7])
  assert.deepEqual(warnings(), ['Cannot switch the firewall; the running one stays until a retry'])
  kernel.lacks = []
  await pass(5 * MINUTE_MS)
  assert.deepEqual(taken(), ['prepare 2 ipvs', 'release 1 ipvs', 'start 2 ipvs'])
  assert.equal(proxy.configuration.kubeIPVS.firewall, 'nftables')
})

test('after a fallback a changed firewall is tried at once', async (t) => {
  const { running, configured, kernel, events, pass, taken } = world(t)
  kernel.lacks = ['no ipset']
  const proxy = running('ipvs')
  await proxy.start()
  taken()
  kernel.lacks = []
  const configuration = configured('ipvs')
  proxy.reconfigure({ ...configuration, kubeIPVS: { ...configuration.kubeIPVS, firewall: 'nftables' } })
  await pass()
  assert.deepEqual(taken(), ['reconfigure 1 iptables', 'prepare 2 ipvs', 'release 1 iptables', 'start 2 ipvs'])
  assert.deepEqual([proxy.mode, events], ['ipvs', ['ReturnedToIpvs']])
})

test('a kernel that loses IPVS waits for no retry of a firewall that failed, and failures are no switches', async (t) => {
  const { running, configured, kernel, pass, taken, warnings } = world(t)
  const proxy = running('ipvs')
  await proxy.start()
  kernel.lacks = ['no nf_tables']
  const configuration = configured('ipvs')
  proxy.reconfigure({ ...configuration, kubeIPVS: { ...configuration.kubeIPVS, firewall: 'nftables' } })
  await pass()
  for (let retry = 0; retry < 3; retry++) await pass(5 * MINUTE_MS)
  taken()
  proxy.ipvsLost()
  await pass()
  assert.deepEqual(taken(), ['prepare 2 iptables', 'release 1 ipvs', 'start 2 iptables'])
  assert.deepEqual(new Set(warnings()), new Set(['Cannot switch the firewall; the running one stays until a retry']))
})
