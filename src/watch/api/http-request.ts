/** A request to a server, and its answer, in either version of HTTP. */

/** An answer, whose headers have arrived, of either version of HTTP. Iteration throws when the body is incomplete. */
export interface HttpResponse extends AsyncIterable<Buffer> {
  readonly statusCode?: number | undefined
  readonly headers: Readonly<
    Partial<Record<'content-encoding' | 'content-type' | 'date' | 'retry-after', string | undefined>>
  >
  /** A connection that is silent for long is asked whether the server lives, which only HTTP/2 can do. */
  readonly isPinged?: boolean
  /** Ends the answer; its reader gets the error. */
  destroy(error?: Error): unknown
}

export interface RequestOptions {
  readonly method: 'GET' | 'POST' | 'PATCH'
  /** Path and query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
  /** Longest wait for the headers of the answer, including the connection, in milliseconds. */
  readonly headersTimeoutMs: number
}
