/** What a kube-apiserver compresses for clients that accept gzip. */
import { gzipSync } from 'node:zlib'
import type { Body } from './faults.ts'

export const GZIP_HEADER = { 'content-encoding': 'gzip', vary: 'Accept-Encoding' } as const

/** Lists that are not longer are sent as they are. */
const PLAIN_BYTES = 128 * 1024
/** As fast as can be; the real one uses 4. */
const LEVEL = 1

export function acceptsGzip(acceptEncoding: string | string[] | undefined): boolean {
  return String(acceptEncoding ?? '').includes('gzip')
}

/** A whole list; undefined: it is not long enough. */
export function compressed(list: Buffer): Buffer | undefined {
  return list.length <= PLAIN_BYTES ? undefined : gzipSync(list, { level: LEVEL })
}

/** A streaming list, of which each write becomes a gzip member, as each flush of kube-apiserver 1.37 does. */
export function inMembers(body: Body): Body {
  return {
    write: (bytes) => body.write(gzipSync(bytes, { level: LEVEL })),
    end: () => body.end(),
  }
}
