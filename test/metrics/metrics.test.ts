/** When a page is made, what it contains, and which files are loaded before the first scrape. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EventLoopDelay } from '../../src/metrics/counts.ts'
import { Metrics } from '../../src/metrics/metrics.ts'
import { readSources } from '../rules/sources.ts'
import { everythingCounted } from '../support/counted.ts'
import { parseMetrics, valueOf } from '../support/metrics-text.ts'

test('Metrics makes one page for simultaneous scrapes, and a new page for the next one', async (t) => {
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

test('Metrics makes a page after a failed one', async (t) => {
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

test('EventLoopDelay measures how long the event loop was blocked', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let nowMs = 1000
  t.mock.method(performance, 'now', () => nowMs)
  const delay = new EventLoopDelay()
  t.after(() => delay.close())
  delay.start()
  delay.start()
  // The event loop was blocked for 2,150 ms, so the timer of 2 s fires 150 ms late.
  nowMs += 2150
  t.mock.timers.tick(2000)
  assert.deepEqual([delay.seconds.count, delay.seconds.sum], [1, 0.15])
})

test('no file that writes text is loaded at the start', () => {
  const writesText = /(^|\/)(scrape|page|[\w-]+-page)\.ts$/
  const loaded: string[] = []
  for (const [path, text] of readSources()) {
    if (!path.startsWith('src/metrics/') || writesText.test(path)) continue
    for (const [, from = ''] of text.matchAll(/^import (?!type )[^;]*? from '([^']+)'/gm))
      if (writesText.test(from)) loaded.push(`${path}: ${from}`)
  }
  assert.deepEqual(loaded, [])
})
