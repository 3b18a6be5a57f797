/** What TLS needs of a kubeconfig, checked before the first handshake, by the name of the field. */
import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'

/** PEM texts or bytes for TLS; what is absent is as Node has it by default. */
export interface TlsMaterial {
  readonly ca?: string | Buffer
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  readonly servername?: string
  /** Default true, whatever the environment says. */
  readonly rejectUnauthorized?: boolean
}

/** Text that is equal exactly when the TLS material is. */
export function tlsFingerprint(tls: TlsMaterial): string {
  const { ca, cert, key, servername, rejectUnauthorized } = tls
  return JSON.stringify([ca?.toString(), cert?.toString(), key?.toString(), servername, rejectUnauthorized])
}

/** Finds out by name of the field what OpenSSL would only say at the first handshake. `wrong` throws. */
export function checkTls(tls: TlsMaterial, wrong: (field: string, reason: unknown) => never): void {
  const { ca, cert, key } = tls
  const check = (field: string, attempt: () => unknown): void => {
    try {
      attempt()
    } catch (error) {
      wrong(field, error)
    }
  }
  // An authority that is no certificate is ignored by a secure context without a word.
  if (ca !== undefined) check('certificate-authority', () => new X509Certificate(ca))
  if (cert !== undefined) check('client-certificate', () => createSecureContext({ cert }))
  if (key !== undefined) check('client-key', () => createSecureContext({ key }))
  if (cert !== undefined && key !== undefined)
    check('client-certificate and client-key', () => createSecureContext({ cert, key }))
}
