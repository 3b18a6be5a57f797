/** Answers of the API server that say that something is wrong: a metav1 Status, in the encoding of the client. */
import type { ServerResponse } from 'node:http'
import type { Sendable } from './store.ts'
import { JSON_WIRE, type Wire } from './wire.ts'

/** A metav1 Status as text. */
export function statusJson(code: number, reason: string, message: string, metadata: object = {}): string {
  return JSON.stringify({ kind: 'Status', apiVersion: 'v1', metadata, status: 'Failure', message, reason, code })
}

export function status(code: number, reason: string, message: string, metadata: object = {}): Sendable {
  return { apiVersion: 'v1', kind: 'Status', json: statusJson(code, reason, message, metadata) }
}

export function refuse(
  response: ServerResponse,
  wire: Wire = JSON_WIRE,
  code: number,
  reason: string,
  message: string,
  metadata: object = {},
  headers: Record<string, string> = {},
): void {
  response.writeHead(code, { 'content-type': wire.contentType, ...headers })
  response.end(wire.body(status(code, reason, message, metadata)))
}
