/**
 * What can go wrong with a request to the API server, as coded errors that say what to do next.
 * What could break: decisions are made on `code`, `status` and `reason` only; the server's message is for people.
 */
import { CodedError } from '../../values/errors.ts'
import { isObject } from '../objects/findings.ts'

/**
 * `api-status`: the server answered with an error (a Status object, as HTTP status or inside a watch).
 * `api-unreachable`: no connection. `api-reset`: the connection broke. `api-silent`: nothing came for too long.
 * `api-ended`: a watch ended soon, in order. `api-bad-response`: the answer is not what was asked for.
 * `api-body-too-large`, `api-line-too-long`: bounds.
 */
export type ApiErrorCode =
  | 'api-status'
  | 'api-unreachable'
  | 'api-reset'
  | 'api-silent'
  | 'api-ended'
  | 'api-bad-response'
  | 'api-body-too-large'

export interface ApiErrorDetails {
  /** HTTP status, or `code` of a Status object inside a watch. */
  readonly status?: number
  /** metav1 StatusReason: Expired, Forbidden, Invalid …; '' when the server gave none. */
  readonly reason?: string
  /** How long the server asks to be left alone, in milliseconds. */
  readonly retryAfterMs?: number
  /** A Status object inside a watch that had begun with 200. */
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

  /** 410: the version asked for is no longer there, or the continue token is too old. */
  get isExpired(): boolean {
    return this.status === 410 || this.reason === 'Expired' || this.reason === 'Gone'
  }
}

/** Letters of a server's message that an error repeats. */
const MAX_MESSAGE = 400

/** An error of a Status object (metav1 Status). `from.status` counts when the object has no code of its own. */
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

/** Milliseconds of a Retry-After header (RFC 9110 10.2.3): seconds or a date; 0 when absent, past or neither. */
export function parseRetryAfter(header: string | undefined, nowMs: number): number {
  if (header === undefined) return 0
  const text = header.trim()
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000
  const date = Date.parse(text)
  return Number.isFinite(date) ? Math.max(0, date - nowMs) : 0
}
