/**
 * How a request reaches the API server: its URL, its headers and TLS material, and checks that name
 * the kubeconfig field when that material is wrong, which OpenSSL does not.
 * @impure
 */
import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'

/** What one request needs. */
export interface Access {
  /** URL of the API server, without a slash at the end. */
  readonly server: string
  readonly headers: Readonly<Record<string, string>>
  readonly tls: TlsMaterial
  /** proxy-url of the cluster: a URL of http or https. */
  readonly proxyUrl?: string
  /** disable-compression of the cluster: the server is to compress no answer. */
  readonly disableCompression?: boolean
}

/** Where requests get their credentials from. */
export interface AccessProvider {
  access(): Promise<Access>
  /** The API server refused the credentials: cached ones must not be used again. */
  invalidate(): void
}

/** PEM texts or bytes for TLS. An absent field has Node's default. */
export interface TlsMaterial {
  readonly ca?: string | Buffer
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  readonly servername?: string
  /** Default true, even when NODE_TLS_REJECT_UNAUTHORIZED says otherwise. */
  readonly rejectUnauthorized?: boolean
}

/** Text that is equal exactly when the TLS material is. */
export function tlsFingerprint(tls: TlsMaterial): string {
  const { ca, cert, key, servername, rejectUnauthorized } = tls
  return JSON.stringify([ca?.toString(), cert?.toString(), key?.toString(), servername, rejectUnauthorized])
}

/** Calls `wrong`, which throws, with the kubeconfig field that OpenSSL would refuse. */
export function checkTls(tls: TlsMaterial, wrong: (field: string, reason: unknown) => never): void {
  const { ca, cert, key } = tls
  const check = (field: string, attempt: () => unknown): void => {
    try {
      attempt()
    } catch (error) {
      wrong(field, error)
    }
  }
  // A secure context silently ignores an authority that is not a certificate.
  if (ca !== undefined) check('certificate-authority', () => new X509Certificate(ca))
  if (cert !== undefined) check('client-certificate', () => createSecureContext({ cert }))
  if (key !== undefined) check('client-key', () => createSecureContext({ key }))
  if (cert !== undefined && key !== undefined)
    check('client-certificate and client-key', () => createSecureContext({ cert, key }))
}
