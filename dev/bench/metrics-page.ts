/**
 * Counters of a running proxy, from its metrics page. Reading it costs the program time, and wakes
 * it from then on: it is read where nothing is timed.
 */

/** Where it is unless the configuration says otherwise. */
export const METRICS_URL = 'http://127.0.0.1:10249/metrics'

/** The text of the page; '' while the program does not answer. */
export function metricsPage(url: string): Promise<string> {
  return fetch(url).then(
    (response) => response.text(),
    () => '',
  )
}

/** The sum of a family's values, or of those whose labels fit. */
export function sumOf(page: string, family: string, labels: RegExp = /^/): number {
  return [...page.matchAll(new RegExp(`^${family}\\{([^}]*)\\} (\\S+)$`, 'gm'))]
    .filter(([, text = '']) => labels.test(text))
    .reduce((sum, [, , value]) => sum + Number(value), 0)
}
