/** Answers of the metrics port that recordings do not cover; test/surfaces/http.ts replays the recorded ones. */
import { flagTexts } from '../../src/start/flag-value.ts'
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { healthResponder, metricsResponder, openServers, type ServersOptions } from '../../src/daemon/servers.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import type { KubeProxyConfiguration } from '../../src/config/types.ts'
import type { HttpAnswer, HttpRequest } from '../../src/serve/http-answer.ts'
import { takeProfile } from '../../src/serve/profiles.ts'
import { until } from '../support/deadline.ts'
import { recordingLog } from '../support/recording-log.ts'
import { ask, freePort, listen, listens } from '../support/tcp-client.ts'

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

const CONFIGURATION = defaultConfiguration('ipvs')

function optionsWith(more: Partial<KubeProxyConfiguration> = {}) {
  const probes: string[] = []
  const levels: number[] = []
  const log = recordingLog()
  const options: ServersOptions = {
    configuration: () => ({ ...CONFIGURATION, ...more }),
    mode: () => CONFIGURATION.mode,
    health: { state: { nodeEligible: false, families: new Map() } },
    metrics: () => ({
      text: async () => 'a 1\n',
      slis: async () => 'b 1\n',
      probes: {
        answered: (...what) => probes.push(what.join(' ')),
        checked: (...what) => probes.push(what.join(' ')),
        resetChecks: () => probes.push('reset'),
      },
    }),
    flags: () => flagTexts({}),
    setVerbosity: (level) => levels.push(level),
    log,
  }
  return { options, probes, levels, log }
}

function request(target: string, more: Partial<HttpRequest> & { readonly headers?: Record<string, string> } = {}) {
  const [path = '', query = ''] = target.split('?')
  return {
    method: 'GET',
    path,
    query,
    header: (name: string) => more.headers?.[name],
    readBody: async () => '',
    signal: new AbortController().signal,
    ...more,
  }
}

const header = ({ headers }: HttpAnswer, name: string): string | undefined => new Map(headers).get(name)

describe('the metrics port', () => {
  it('compresses the page only for clients that accept gzip', async () => {
    const answer = metricsResponder(optionsWith().options)
    for (const [encoding, zipped] of [
      ['gzip', true],
      ['deflate, gzip;q=0.5', true],
      ['x-gzip', true],
      ['gzip;q=0', false],
      ['gzip; q=0.0', false],
      ['gzippy', false],
      ['identity', false],
      ['', false],
    ] as const) {
      const made = await answer(request('/metrics', { headers: { 'accept-encoding': encoding } }))
      assert.equal(header(made, 'Content-Encoding'), zipped ? 'gzip' : undefined, encoding)
      assert.equal(zipped ? gunzipSync(made.body).toString() : made.body, 'a 1\n')
    }
  })

  it('answers 503 for metrics while the program starts', async () => {
    const answer = metricsResponder({ ...optionsWith().options, metrics: () => undefined })
    for (const path of ['/metrics', '/metrics/slis']) assert.equal((await answer(request(path))).status, 503)
    assert.equal((await answer(request('/healthz'))).status, 200)
  })

  it('counts checks and answers of the health port, and resets the counts of checks', async () => {
    const { options, probes } = optionsWith()
    const answer = metricsResponder(options)
    await answer(request('/healthz'))
    await answer(request('/metrics/slis', { method: 'DELETE' }))
    for (const path of ['/healthz', '/livez', '/x']) await healthResponder(options)(request(path))
    assert.deepEqual(probes, ['ping true', 'reset', 'healthz 503', 'livez 200'])
  })

  it('answers 404 below /debug without enableProfiling', async () => {
    const answer = metricsResponder(optionsWith().options)
    for (const path of ['/debug/pprof/', '/debug/pprof/heap', '/debug/flags/v'])
      assert.equal((await answer(request(path, { method: 'PUT', readBody: async () => '4' }))).status, 404)
  })

  it('answers 404 for names of inherited properties', async () => {
    const answer = metricsResponder(optionsWith({ enableProfiling: true }).options)
    for (const path of [
      'constructor',
      '/constructor',
      '/__proto__',
      '/debug/pprof/constructor',
      '/debug/pprof/__proto__',
    ])
      assert.equal((await answer(request(path))).status, 404, path)
  })

  it('sets the verbosity of the log to whole numbers only', async () => {
    const { options, levels } = optionsWith({ enableProfiling: true })
    const answer = metricsResponder(options)
    const put = async (body: string): Promise<string> =>
      String((await answer(request('/debug/flags/v', { method: 'PUT', readBody: async () => body }))).body)
    assert.equal(await put('4'), 'successfully set klog.logging.verbosity to 4\n')
    assert.equal(await put('-1'), 'strconv.ParseUint: parsing "-1": invalid syntax\n')
    assert.equal(await put(''), 'strconv.ParseUint: parsing "": invalid syntax\n')
    assert.equal(await put('99999999999'), 'strconv.ParseUint: parsing "99999999999": value out of range\n')
    assert.deepEqual(levels, [4])
  })

  it('lists all flags with their values', async () => {
    const answer = metricsResponder({
      ...optionsWith().options,
      flags: () => flagTexts({ config: '/etc/a: b', 'logging.verbosity': 4 }),
    })
    const text = String((await answer(request('/flagz'))).body)
    assert.match(text, /^config: \/etc\/a: b$/m)
    assert.match(text, /^v: 4$/m)
    assert.match(text, /^proxy-mode: $/m)
    const accept =
      'application/yaml;q=0.5;v=v1beta1;g=config.k8s.io;as=Flagz, application/json;v=v2;g=config.k8s.io;as=Flagz'
    const made = await answer(request('/flagz', { headers: { accept } }))
    assert.equal(header(made, 'Content-Type'), 'application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz')
  })
})

describe('profiles', () => {
  const profiling = (): ReturnType<typeof metricsResponder> =>
    metricsResponder(optionsWith({ enableProfiling: true }).options)

  function busyFunctionOfThisTest(untilMs: number): number {
    let sum = 0
    while (performance.now() < untilMs) sum += Math.sqrt(sum + 1)
    return sum
  }

  it('of the CPU contain the functions that ran, for pprof and for DevTools', async () => {
    const working = setInterval(() => busyFunctionOfThisTest(performance.now() + 20), 1)
    closers.push(() => clearInterval(working))
    const made = await profiling()(request('/debug/pprof/profile?seconds=0.3'))
    assert.deepEqual([made.status, header(made, 'Content-Disposition')], [200, 'attachment; filename="profile"'])
    const { strings, sampleTypes, samples } = decodeProfile(gunzipSync(made.body))
    assert.ok(strings.includes('busyFunctionOfThisTest'))
    assert.ok(!strings.includes('(idle)'))
    assert.deepEqual(sampleTypes, [
      ['samples', 'count'],
      ['cpu', 'nanoseconds'],
    ])
    const nanoseconds = samples.reduce((sum, values) => sum + (values[1] ?? 0), 0)
    assert.ok(nanoseconds > 50e6 && nanoseconds < 5e9, String(nanoseconds))
    const v8 = await profiling()(request('/debug/pprof/profile?seconds=0.05&format=v8'))
    assert.deepEqual(Object.keys(JSON.parse(String(v8.body))).sort(), [
      'endTime',
      'nodes',
      'samples',
      'startTime',
      'timeDeltas',
    ])
  })

  it('of the heap contain allocated memory that is still in use', async () => {
    const held: unknown[] = []
    const allocating = setInterval(() => {
      for (let count = 0; count < 2000; count++) held.push({ count, text: `held ${count}`.repeat(20) })
    }, 5)
    closers.push(() => clearInterval(allocating))
    const made = await profiling()(request('/debug/pprof/heap?seconds=0.3'))
    const { sampleTypes, samples } = decodeProfile(gunzipSync(made.body))
    assert.deepEqual(sampleTypes, [['inuse_space', 'bytes']])
    assert.ok(samples.reduce((sum, values) => sum + (values[0] ?? 0), 0) > 100_000)
    assert.ok(held.length > 0)
  })

  it('are taken one at a time, for at most five minutes, and end when the client disconnects', async () => {
    const answer = profiling()
    const gone = new AbortController()
    const first = answer(request('/debug/pprof/profile?seconds=100', { signal: gone.signal }))
    const busy = await answer(request('/debug/pprof/heap'))
    assert.deepEqual([busy.status, busy.body], [500, 'Could not enable profiling: another profile is being taken\n'])
    await assert.rejects(takeProfile('heap', 1, gone.signal), { code: 'profile-busy' })
    gone.abort()
    assert.equal((await first).status, 200)
    assert.equal((await answer(request('/debug/pprof/profile?seconds=301'))).status, 400)
  })
})

describe('openServers', () => {
  const at = (port: number): string => `127.0.0.1:${port}`

  it('serves both ports, and retries one that is occupied', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const [health, metrics] = [await freePort(), await freePort()]
    const { options, log } = optionsWith({ healthzBindAddress: at(health), metricsBindAddress: at(metrics) })
    const squatter = await listen(metrics, '127.0.0.1')
    closers.push(() => squatter.close())
    const servers = openServers(options)
    closers.push(() => servers.close())
    await until('the health port', () => listens(health))
    const errors = () => log.lines.filter(({ level }) => level === 'error')
    await until('an error', () => errors().length > 0)
    assert.deepEqual(
      errors().map(({ level, message, fields }) => [level, message, fields]),
      [['error', 'starting metrics server failed', { err: `listen tcp ${at(metrics)}: bind: address already in use` }]],
    )
    squatter.close()
    t.mock.timers.tick(5000)
    await servers.ready
    assert.match(await ask(metrics, 'GET /proxyMode HTTP/1.1\r\nHost: x\r\n\r\n'), /\r\n\r\nipvs$/)
    servers.close()
    assert.deepEqual([await listens(health), await listens(metrics)], [false, false])
  })

  it('opens no port for an empty address, which --healthz-port=0 and --metrics-port=0 make', async () => {
    const metrics = await freePort()
    const { options } = optionsWith({ healthzBindAddress: '', metricsBindAddress: at(metrics) })
    const listening = (): number => process.getActiveResourcesInfo().filter((one) => one === 'TCPServerWrap').length
    const before = listening()
    const servers = openServers(options)
    closers.push(() => servers.close())
    await servers.ready
    assert.equal(listening() - before, 1)
    assert.equal(await listens(metrics), true)
  })

  it('rejects with the message of kube-proxy with bindAddressHardFail', async () => {
    const [health, metrics] = [await freePort(), await freePort()]
    for (const [taken, message] of [
      [
        health,
        `healthz server failed: failed to start proxy healthz on ${at(health)}: listen tcp ${at(health)}: bind: address already in use`,
      ],
      [metrics, `listen tcp ${at(metrics)}: bind: address already in use`],
    ] as const) {
      const squatter = await listen(taken, '127.0.0.1')
      closers.push(() => squatter.close())
      const { options } = optionsWith({
        healthzBindAddress: at(health),
        metricsBindAddress: at(metrics),
        bindAddressHardFail: true,
      })
      const servers = openServers(options)
      closers.push(() => servers.close())
      await assert.rejects(servers.ready, { code: 'bind-failed', message })
      servers.close()
      squatter.close()
    }
  })
})

/** Decodes the fields of profile.proto that the tests compare: 1 (sample_type), 2 (sample) and 6 (strings). */
function decodeProfile(bytes: Uint8Array) {
  const strings: string[] = []
  const types: (readonly number[])[] = []
  const samples: (readonly number[])[] = []
  for (const [field, value] of fieldsOf(bytes)) {
    if (typeof value === 'number') continue
    if (field === 6) strings.push(Buffer.from(value).toString())
    if (field === 1) types.push(fieldsOf(value).map(([, index]) => Number(index)))
    const packed = field === 2 ? fieldsOf(value).find(([inner]) => inner === 2)?.[1] : undefined
    if (typeof packed === 'object') samples.push(varintsOf(packed))
  }
  return { strings, samples, sampleTypes: types.map((pair) => pair.map((index) => strings[index])) }
}

function fieldsOf(bytes: Uint8Array): (readonly [field: number, value: number | Uint8Array])[] {
  const fields: (readonly [number, number | Uint8Array])[] = []
  for (let at = 0; at < bytes.length; ) {
    const [key, afterKey] = varintAt(bytes, at)
    const [value, end] = varintAt(bytes, afterKey)
    const isBytes = key % 8 === 2
    fields.push([Math.floor(key / 8), isBytes ? bytes.subarray(end, end + value) : value])
    at = isBytes ? end + value : end
  }
  return fields
}

function varintsOf(bytes: Uint8Array): number[] {
  const values: number[] = []
  for (let at = 0; at < bytes.length; ) {
    const [value, end] = varintAt(bytes, at)
    values.push(value)
    at = end
  }
  return values
}

function varintAt(bytes: Uint8Array, start: number): readonly [value: number, end: number] {
  let value = 0
  for (let at = start, factor = 1; ; at++, factor *= 128) {
    const byte = bytes[at] ?? 0
    value += (byte & 127) * factor
    if (byte < 128) return [value, at + 1]
  }
}
