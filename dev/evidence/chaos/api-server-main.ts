/**
 * The API server of a guest in a process of its own, which faults stop and kill. It is told its
 * objects with their versions, because they outlive it.
 */
import { ApiServer } from '../../api-server/server.ts'
import type { Fault } from '../../api-server/faults.ts'
import type { Json } from '../../api-server/store.ts'
import type { ObjectKind } from '../../../src/service/objects.ts'

export interface Put {
  readonly kind: ObjectKind
  readonly object: Json
  readonly version: number
}

export type Message =
  | { readonly do: 'start'; readonly objects: readonly Put[]; readonly version: number; readonly port: number }
  | ({ readonly do: 'put' } & Put)
  | { readonly do: 'delete'; readonly kind: ObjectKind; readonly key: string; readonly version: number }
  | { readonly do: 'fault'; readonly fault: Fault }
  | { readonly do: 'reset connections' }
  /** Every watch ends after so long, and every version before now is too old. */
  | { readonly do: 'expire'; readonly everyMs: number }
  | { readonly do: 'heal' }

const server = new ApiServer({ bookmarkMs: 10_000 })
const { store } = server
let expiring: NodeJS.Timeout | undefined

function put({ kind, object, version }: Put): void {
  store.version = version - 1
  store.put(kind, object)
}

async function on(message: Message): Promise<void> {
  switch (message.do) {
    case 'start':
      message.objects.forEach(put)
      store.version = message.version
      store.compact()
      await server.listen(message.port)
      process.send?.(server.url)
      return
    case 'put':
      return put(message)
    case 'delete':
      store.version = message.version - 1
      return store.delete(message.kind, message.key)
    case 'fault':
      return server.inject(message.fault)
    case 'reset connections':
      return server.resetConnections()
    case 'expire':
      expiring = setInterval(() => {
        store.compactedAt = Number.MAX_SAFE_INTEGER
        server.endWatches()
      }, message.everyMs)
      return
    case 'heal':
      clearInterval(expiring)
      store.compact()
      server.faults.length = 0
  }
}

process.on('message', (message: Message) => void on(message))
process.once('disconnect', () => process.exit())
