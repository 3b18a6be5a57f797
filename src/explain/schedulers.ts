/** Which real servers of a virtual server get new connections, and how many, by what is known of its scheduler. */
import { FLAG_SCHED_1, type RealServer, type VirtualServerFields } from '../ipvs/types.ts'
import { schedulerTraits } from '../values/schedulers.ts'
import type { Choice } from './types.ts'

export interface Chosen {
  readonly server: RealServer
  /** null: it depends on the load. */
  readonly share: number | null
}

export interface Scheduled {
  readonly servers: readonly Chosen[]
  /** The share of clients that get no real server. */
  readonly nobody: number
  readonly choice: Choice | undefined
}

export function schedule(
  { scheduler, flags }: Pick<VirtualServerFields, 'scheduler' | 'flags'>,
  all: readonly RealServer[],
): Scheduled {
  const usable = all.filter(({ weight }) => weight > 0)
  const alone = usable.length === 1
  const among = (choice: Choice, shareOf: (server: RealServer) => number | null): Scheduled => ({
    servers: usable.map((server) => ({ server, share: alone ? 1 : shareOf(server) })),
    nobody: usable.length === 0 ? 1 : 0,
    choice: usable.length > 1 ? choice : undefined,
  })
  const weights = usable.reduce((sum, { weight }) => sum + weight, 0)
  const { choice, weight: use } = schedulerTraits(scheduler)
  switch (scheduler) {
    case 'sh': {
      // ip_vs_sh_reassign gives a real server with weight 0 one place in its table, and a client
      // that finds it there gets nobody.
      const empty = (flags & FLAG_SCHED_1) === 0 ? all.length - usable.length : 0
      const places = weights + empty
      return {
        servers: usable.map((server) => ({ server, share: server.weight / places })),
        nobody: usable.length === 0 ? 1 : empty / places,
        choice: usable.length > 1 || empty > 0 ? 'client' : undefined,
      }
    }
    case 'fo': {
      const best = usable.reduce<RealServer | undefined>(
        (found, server) => (found === undefined || server.weight > found.weight ? server : found),
        undefined,
      )
      return best === undefined
        ? among('same', () => null)
        : { servers: [{ server: best, share: 1 }], nobody: 0, choice: undefined }
    }
    default:
      if (choice === 'load' || choice === 'same') return among(choice, () => null)
      return among(choice, ({ weight }) => (use === 'none' ? 1 / usable.length : weight / weights))
  }
}
