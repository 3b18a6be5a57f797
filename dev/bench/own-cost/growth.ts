/** Many changes one after the other, without any kernel (memory-kernel.ts): whether the memory of the program grows. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiServerProcess } from '../api-server-process.ts'
import type { MeasuredProgram } from '../measured-program.ts'
import { slope } from '../statistics.ts'

/** Points of RSS over changes, and the growth from `from` to the last change, in MiB. */
export interface Growth {
  readonly changes: number
  readonly from: number
  readonly points: readonly (readonly [changes: number, rssMiB: number])[]
  readonly growthMiB: number | null
}

/** Changes as fast as they are written, in batches that are awaited. */
export async function measureGrowth(
  { api, program }: { readonly api: ApiServerProcess; readonly program: MeasuredProgram },
  changes: number,
  say: (text: string) => void,
): Promise<Growth> {
  const from = Math.floor(changes / 5)
  const points: [number, number][] = []
  for (let index = 1; index <= changes; index++) {
    await api.change()
    if (index % 100 === 0) await sleep(1)
    if (index >= from && index % Math.max(1, Math.floor(changes / 200)) === 0)
      points.push([index, program.memory().rssMiB])
    if (index % Math.max(1, Math.floor(changes / 10)) === 0)
      say(`${index} changes, ${program.memory().rssMiB.toFixed(1)} MiB`)
  }
  const perChange = slope(points)
  return { changes, from, points, growthMiB: perChange === null ? null : perChange * (changes - from) }
}
