/**
 * X.509 certificates for tests and the API server of the tests, made when they are needed: no
 * program and no key in the repository. The DER is written by hand and covers only this: EC P-256
 * keys, one name, addresses as alternative names.
 */
import { familyOf, writeAddress } from '../../src/values/address.ts'
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'

export interface Certificate {
  /** PEM */
  readonly cert: string
  /** PEM, PKCS #8 */
  readonly key: string
}

interface Authority extends Certificate {
  readonly name: string
  readonly privateKey: KeyObject
}

const OID_COMMON_NAME = '550403'
const OID_ECDSA_SHA256 = '2a8648ce3d040302'
const OID_BASIC_CONSTRAINTS = '551d13'
const OID_ALT_NAME = '551d11'

/** A new certificate authority. */
export function makeAuthority(name: string): Authority {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  // cA TRUE
  const constraints = extension(OID_BASIC_CONSTRAINTS, der(0x30, der(0x01, Buffer.from([0xff]))))
  const cert = makeCertificate(name, name, publicKey, privateKey, [constraints])
  return { name, cert, key: pemOf(privateKey), privateKey }
}

/** A certificate that the authority signed, valid for an address, for localhost and as a client. */
export function issueCertificate(authority: Authority, name: string, address = '127.0.0.1'): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const family = familyOf(address)
  const bytes = new Uint8Array(family === 'IPv4' ? 4 : 16)
  writeAddress(address, bytes, 0)
  const host = der(0x87, Buffer.from(bytes))
  const names = extension(OID_ALT_NAME, der(0x30, host, der(0x82, Buffer.from('localhost'))))
  const cert = makeCertificate(authority.name, name, publicKey, authority.privateKey, [names])
  return { cert, key: pemOf(privateKey) }
}

function makeCertificate(
  issuer: string,
  subject: string,
  publicKey: KeyObject,
  issuerKey: KeyObject,
  extensions: readonly Buffer[],
): string {
  const algorithm = der(0x30, oid(OID_ECDSA_SHA256))
  const serial = randomBytes(8)
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40
  const body = der(
    0x30,
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, serial),
    algorithm,
    nameOf(issuer),
    der(0x30, der(0x17, Buffer.from('200101000000Z')), der(0x17, Buffer.from('491231235959Z'))),
    nameOf(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(0x30, ...extensions)),
  )
  const signature = sign('sha256', body, issuerKey)
  const certificate = der(0x30, body, algorithm, der(0x03, Buffer.from([0]), signature))
  const lines = certificate.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

function pemOf(key: KeyObject): string {
  return String(key.export({ type: 'pkcs8', format: 'pem' }))
}

function nameOf(text: string): Buffer {
  return der(0x30, der(0x31, der(0x30, oid(OID_COMMON_NAME), der(0x0c, Buffer.from(text)))))
}

function extension(id: string, value: Buffer): Buffer {
  return der(0x30, oid(id), der(0x04, value))
}

function oid(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'))
}

/** Tag, length, content. */
function der(tag: number, ...content: readonly Buffer[]): Buffer {
  const body = Buffer.concat(content)
  const { length } = body
  const head =
    length < 128 ? [tag, length] : length < 256 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from(head), body])
}
