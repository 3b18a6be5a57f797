/**
 * Who listens at a TCP port of this network namespace, from /proc/net/tcp and tcp6: listeners are
 * their first lines. Any user may listen at a port above 1023, so what answers there is as
 * trustworthy as its user.
 * @impure
 */
import { open } from 'node:fs/promises'
import { ANY_ADDRESS } from '../values/well-known.ts'
import { familyOf, parseAddress, writeAddress } from '../values/address.ts'

/** TCP_LISTEN of linux/tcp_states.h, as the files print it. */
const LISTEN = '0A'
/** Listeners take 150 bytes each; a node with more than some thousand of them has another problem. */
const MAX_BYTES = 1 << 20

/**
 * The user that listens at this address and port: of several listeners that of the address itself,
 * then that of all addresses. undefined: nobody does, or it cannot be known.
 * @param proc put before the path, for tests
 */
export async function listenerUser(host: string, port: number, proc = '/proc'): Promise<number | undefined> {
  const address = parseAddress(host)
  if (address === undefined) return undefined
  const family = familyOf(address)
  const files = family === 'IPv4' ? ['tcp', 'tcp6'] : ['tcp6']
  const texts = await Promise.all(files.map((file) => readStart(`${proc}/net/${file}`)))
  const listeners = texts.flatMap(listenersOf).filter((listener) => listener.port === port)
  for (const wanted of [address, ANY_ADDRESS[family], ANY_ADDRESS.IPv6]) {
    const hex = hexOf(wanted)
    const found = listeners.find((listener) => listener.address === hex)
    if (found !== undefined) return found.user
  }
  return undefined
}

interface Listener {
  /** As the files print it. */
  readonly address: string
  readonly port: number
  readonly user: number
}

/** `  0: 0100007F:2809 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 …` */
const LINE = /^\s*\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) \S+ ([0-9A-F]{2}) \S+ \S+ \S+\s+(\d+)\s/

function listenersOf(text: string): readonly Listener[] {
  return text.split('\n').flatMap((line) => {
    const [, address = '', port = '', state, user] = LINE.exec(line) ?? []
    return state === LISTEN ? { address, port: Number.parseInt(port, 16), user: Number(user) } : []
  })
}

/** An address as the files print it: each four bytes as a number of this machine, which is little-endian. */
function hexOf(address: string): string {
  const bytes = new Uint8Array(16)
  const length = writeAddress(address, bytes, 0)
  const view = new DataView(bytes.buffer)
  let text = ''
  for (let at = 0; at < length; at += 4) text += view.getUint32(at, true).toString(16).toUpperCase().padStart(8, '0')
  return text
}

async function readStart(path: string): Promise<string> {
  try {
    const file = await open(path)
    try {
      const buffer = Buffer.alloc(MAX_BYTES)
      let bytes = 0
      // One read of such a file gives one page.
      while (bytes < MAX_BYTES) {
        const { bytesRead } = await file.read(buffer, bytes, MAX_BYTES - bytes)
        if (bytesRead === 0) break
        bytes += bytesRead
      }
      return buffer.toString('latin1', 0, bytes)
    } finally {
      await file.close()
    }
  } catch {
    return ''
  }
}
