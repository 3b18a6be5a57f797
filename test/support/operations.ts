/** What a daemon has written since its start, from its metrics. */
import { parseMetrics } from './metrics-text.ts'

/** Operations on every table, by table; only what is not 0. */
export async function operations(metricsBindAddress: string): Promise<Readonly<Record<string, number>>> {
  const text = await (await fetch(`http://${metricsBindAddress}/metrics`)).text()
  const done: Record<string, number> = {}
  for (const { labels, value } of parseMetrics(text).get('kubeipvs_operations_total')?.samples ?? []) {
    const table = labels.get('table') ?? ''
    if (value > 0) done[table] = (done[table] ?? 0) + value
  }
  return done
}
