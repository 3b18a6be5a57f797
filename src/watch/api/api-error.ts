/**
 * Failures of requests to the API server as coded errors. Callers decide by `code`, `status` and
 * `reason`; the server's message is only for people.
 */
import { CodedError } from '../../values/errors.ts'
import { isObject } from '../objects/findings.ts'

/**
 * `api-status`: the server answered with an error (a Status object), as HTTP status or inside a
 * watch. `api-unreachable`: no connection. `api-reset`: the connection broke. `api-silent`: the
 * server sent nothing for too long. `api-dead`: the server did not even answer a ping, so
 * everything on its connection ended. `api-ended`: the server ended a watch early, without an
 * error. `api-bad-response`: the answer is not what was requested. `api-body-too-large`: the answer
 * exceeds the limit.
 */
export type ApiErrorCode =
  | 'api-status'
  | 'api-unreachable'
  | 'api-reset'
  | 'api-silent'
  | 'api-dead'
  | 'api-ended'
  | 'api-bad-response'
  | 'api-body-too-large'

export interface ApiErrorDetails {
  /** HTTP status, or `code` of a Status object inside a watch. */
  readonly status?: number
  /** metav1 StatusReason: Expired, Forbidden, Invalid …; '' when the server gave none. */
  readonly reason?: string
  /** How long the server asks the client to wait before the next request, in milliseconds. */
  readonly retryAfterMs?: number
  /** A Status object inside a watch whose HTTP status was 200. */
  readonly inStream?: boolean
  readonly cause?: unknown
}

export class ApiError extends CodedError {
  /** 0 when there was no answer. */
  readonly status: number
  readonly reason: string
  readonly retryAfterMs: number
  readonly inStream: boolean

  constructor(code: ApiErrorCode, message: string, details: ApiErrorDetails = {}) {
    super(code, message, details.cause === undefined ? undefined : { cause: details.cause })
    this.status = details.status ?? 0
    this.reason = details.reason ?? ''
    this.retryAfterMs = details.retryAfterMs ?? 0
    this.inStream = details.inStream ?? false
  }

  /** 410: the server no longer has the requested resourceVersion, or the continue token is too old. */
  get isExpired(): boolean {
    return this.status === 410 || this.reason === 'Expired' || this.reason === 'Gone'
  }
}

/** Characters of the server's message that an error repeats. */
const MAX_MESSAGE = 400

/** The error for a Status object (metav1 Status). `from.status` is used when the object has no code. */
export function statusError(json: unknown, from: Omit<ApiErrorDetails, 'reason' | 'cause'>): ApiError {
  const object = isObject(json) ? json : {}
  const { code, reason, message, details } = object
  const status = typeof code === 'number' && Number.isInteger(code) ? code : (from.status ?? 0)
  const seconds = isObject(details) ? details['retryAfterSeconds'] : undefined
  const text = typeof message === 'string' ? message.slice(0, MAX_MESSAGE) : ''
  const reasonText = typeof reason === 'string' ? reason : ''
  return new ApiError('api-status', `${status}${reasonText && ` ${reasonText}`}${text && `: ${text}`}`, {
    ...from,
    status,
    reason: reasonText,
    retryAfterMs: Math.max(from.retryAfterMs ?? 0, typeof seconds === 'number' && seconds > 0 ? seconds * 1000 : 0),
  })
}

/**
 * Milliseconds of a Retry-After header (RFC 9110 10.2.3), which is seconds or a date; 0 when
 * absent, past or neither.
 */
export function parseRetryAfter(header: string | undefined, nowMs: number): number {
  if (header === undefined) return 0
  const text = header.trim()
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000
  const date = Date.parse(text)
  return Number.isFinite(date) ? Math.max(0, date - nowMs) : 0
}

const UNREACHABLE = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT'])

/** The ApiError for an error of Node's HTTP client; the signal's reason after an abort. */
export function connectionError(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted === true) return signal.reason
  if (error instanceof CodedError) return error
  const code = isObject(error) && typeof error['code'] === 'string' ? error['code'] : ''
  const message = error instanceof Error && error.message !== '' ? error.message : code || String(error)
  if (UNREACHABLE.has(code) || /^(ERR_TLS|CERT_|ERR_SSL|DEPTH_|SELF_|UNABLE_)/.test(code))
    return new ApiError('api-unreachable', message, { cause: error })
  return new ApiError('api-reset', message, { cause: error })
}
