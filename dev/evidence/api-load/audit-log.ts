/** Lists and watches in the audit log of a kube-apiserver (audit.k8s.io/v1, one event a line). */
import type { Seen } from './figures.ts'

/** What is used of an event. */
interface AuditEvent {
  readonly auditID: string
  readonly stage: string
  readonly verb: string
  readonly requestURI: string
  /** RFC 3339 with microseconds. */
  readonly requestReceivedTimestamp: string
  readonly objectRef?: { readonly resource?: string }
}

/** Writes those events, and no others. @param user the name of all clients */
export const auditPolicy = (user: string): object => ({
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  rules: [
    {
      level: 'Metadata',
      users: [user],
      verbs: ['list', 'watch'],
      resources: [
        { group: '', resources: ['services', 'nodes'] },
        { group: 'discovery.k8s.io', resources: ['endpointslices'] },
      ],
    },
    { level: 'None' },
  ],
})

export class AuditLog {
  readonly #requests: Seen[] = []
  readonly #watches = new Set<string>()
  readonly #originMs: number
  #rest = ''

  /** @param originMs milliseconds since 1970 from which the times of requests count */
  constructor(originMs: number) {
    this.#originMs = originMs
  }

  /** Reads what the log has got meanwhile; its last line may be incomplete. */
  read(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) if (line !== '') this.#count(JSON.parse(line) as AuditEvent)
  }

  #count({ auditID, stage, verb, requestURI, requestReceivedTimestamp, objectRef }: AuditEvent): void {
    if (stage === 'ResponseComplete' || stage === 'Panic') this.#watches.delete(auditID)
    // Only of what runs long; a streaming list is a watch.
    if (stage === 'ResponseStarted') this.#watches.add(auditID)
    if (stage !== 'RequestReceived') return
    const query = new URLSearchParams(requestURI.split('?')[1])
    this.#requests.push({
      kind: objectRef?.resource,
      verb,
      query,
      atMs: Date.parse(requestReceivedTimestamp) - this.#originMs,
    })
  }

  /** The server was killed, so its watches have ended, and its last line has no end. */
  endWatches(): void {
    this.#watches.clear()
    this.#rest = ''
  }

  get requests(): readonly Seen[] {
    return this.#requests
  }

  get watchCount(): number {
    return this.#watches.size
  }
}
