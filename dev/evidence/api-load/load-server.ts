/** The API server that a run measures: that of the tests, or a kube-apiserver. */
import type { ObjectKind } from '../../../src/service/objects.ts'
import type { Json } from '../../api-server/store.ts'
import type { Seen } from './figures.ts'

export interface LoadServer {
  /** Of the authority that signed its certificate, as PEM. */
  readonly ca: string
  /** What every client has to get that nobody has put: objects that the server makes for itself. */
  readonly ownObjects: number
  /** Rejects when the server has ended by itself. */
  readonly ended: Promise<never>
  /** Creates an object, or replaces it. */
  put(kind: ObjectKind, object: Json): Promise<void>
  /** Lets clients reach it; returns the URL, which stays the same. */
  open(): Promise<string>
  /** Cuts all connections and lets nobody reach it. */
  close(): Promise<void>
  /** The server knows none of the versions that clients know. Called while nobody reaches it. */
  forget(): Promise<void>
  /** Streaming lists are refused from now on; undefined where the server cannot do that. */
  readonly refuseStreaming: (() => void) | undefined
  /** Resets all connections. */
  reset(): void
  /** Lists and watches of Services, EndpointSlices and Nodes so far, each when it arrived. */
  requests(): Promise<readonly Seen[]>
  /** Open watches of them. */
  watchCount(): Promise<number>
  connectionCount(): number
  /** To clients, so far, with everything that TLS and HTTP add. */
  bytesSent(): number
  stop(): void
}
