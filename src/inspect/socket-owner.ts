/**
 * Whether a local socket can be that of a daemon of this node: it and its folder belong to root or
 * to the user who looks, and nobody else can put another one in its place.
 * @impure
 */
import { lstat, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { quote } from '../values/quote.ts'

const MODE = { othersWrite: 0o022, sticky: 0o1000 }

/**
 * Why others may put a socket into the folder; undefined: they cannot. Rejects when the folder
 * cannot be looked at. @param self user
 */
export async function folderDoubt(folder: string, self = process.getuid?.()): Promise<string | undefined> {
  const { mode, uid } = await stat(folder)
  if (uid !== 0 && uid !== self) return `the folder ${quote(folder)} belongs to the user ${uid}`
  if ((mode & MODE.othersWrite) === 0 || (mode & MODE.sticky) !== 0) return undefined
  return `other users may write to the folder ${quote(folder)}`
}

/** Why the socket may be another program's; undefined: it is not, or nothing is there. */
export async function socketDoubt(path: string, self = process.getuid?.()): Promise<string | undefined> {
  try {
    const doubt = await folderDoubt(dirname(path), self)
    if (doubt !== undefined) return doubt
    const { uid } = await lstat(path)
    return uid === 0 || uid === self ? undefined : `the socket ${quote(path)} belongs to the user ${uid}`
  } catch {
    // Whoever connects gets the reason.
    return undefined
  }
}
