/** When pages are made and what they are made of; what is loaded before somebody asks. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EventLoopDelay } from '../../src/metrics/event-loop-delay.ts'
import { Metrics } from '../../src/metrics/metrics.ts'
import { readSources } from '../rules/sources.ts'
import { everythingCounted } from '../support/counted.ts'
import { parseMetrics, valueOf } from '../support/metrics-text.ts'

test('Metrics makes one page for all who ask at once, and a new one afterwards', async (t) => {
  const { sync, requests, sources } = everythingCounted()
  let made = 0
  const conflictCount = (): number => ++made
  const metrics = new Metrics({ sync, requests, sources: { ...sources, conflictCount } })
  t.after(() => metrics.close())
  const pages = await Promise.all([metrics.text(), metrics.text(), metrics.text()])
  assert.equal(new Set(pages).size, 1)
  assert.equal(valueOf(parseMetrics(pages[0] ?? ''), 'kubeipvs_conflicts'), 1)
  assert.equal(valueOf(parseMetrics(await metrics.text()), 'kubeipvs_conflicts'), 2)
  metrics.auditObserver.ended('sets', 500, false)
  metrics.probes.answered('healthz', 503)
  const families = parseMetrics(await metrics.text())
  assert.equal(valueOf(families, 'kubeipvs_audit_duration_seconds_sum', { audit: 'sets' }), 0.5)
  assert.equal(valueOf(families, 'kubeproxy_proxy_healthz_total', { code: '503' }), 1)
  assert.match(await metrics.slis(), /^process_start_time_seconds 1\.\d+e\+09$/m)
})

test('Metrics goes on after a page that failed', async (t) => {
  const { sync, requests, sources } = everythingCounted()
  let broken = true
  const serviceCount = (): number => {
    if (broken) throw new Error('broken')
    return 3
  }
  const metrics = new Metrics({ sync, requests, sources: { ...sources, serviceCount } })
  t.after(() => metrics.close())
  await assert.rejects(metrics.text(), { message: 'broken' })
  broken = false
  assert.equal(valueOf(parseMetrics(await metrics.text()), 'kubeipvs_services'), 3)
})

test('EventLoopDelay sees what holds the event loop', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let nowMs = 1000
  t.mock.method(performance, 'now', () => nowMs)
  const delay = new EventLoopDelay()
  t.after(() => delay.close())
  delay.start()
  delay.start()
  // The event loop was held for 400 ms, so the timer of 250 ms comes 150 ms late.
  nowMs += 400
  t.mock.timers.tick(250)
  assert.deepEqual([delay.seconds.count, delay.seconds.sum], [1, 0.15])
})

test('nothing that makes text is loaded at a start', () => {
  const makesText = /(^|\/)(pages?|[\w-]+-pages?|[\w-]+-families)\.ts$/
  const loaded: string[] = []
  for (const [path, text] of readSources()) {
    if (!path.startsWith('src/metrics/') || makesText.test(path)) continue
    for (const [, from = ''] of text.matchAll(/^import (?!type )[^;]*? from '([^']+)'/gm))
      if (makesText.test(from)) loaded.push(`${path}: ${from}`)
  }
  assert.deepEqual(loaded, [])
})
