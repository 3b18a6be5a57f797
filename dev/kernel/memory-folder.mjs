/**
 * Chooses the folder for the memory file of user-mode Linux: the guest maps the file executable, so
 * the file system must allow that, and it must have room for all of the guest's memory.
 */
import { readFileSync, statfsSync } from 'node:fs'

/** Memory of a guest in MiB. */
export const GUEST_MEMORY_MIB = 2048

const FOLDERS = ['/dev/shm', '/tmp', '/var/tmp']

/**
 * The first suitable folder, or a sentence with the remedy.
 * @param {string} [mounts] the text of /proc/mounts
 * @param {(folder: string) => number} [freeMiB] room in a folder; it throws where the folder does
 * not exist
 * @returns {{ folder: string } | { missing: string }}
 */
export function memoryFolder(mounts = readFileSync('/proc/mounts', 'utf8'), freeMiB = freeMiBOf) {
  const options = new Map(mounts.split('\n').map((line) => [line.split(' ')[1] ?? '', line.split(' ')[3] ?? '']))
  const reasons = []
  for (const folder of FOLDERS) {
    // Without a mount it is a folder of the root file system, which would be written to disk.
    if (folder === '/dev/shm' && !options.has(folder)) continue
    if (options.get(folder)?.split(',').includes('noexec')) {
      reasons.push(`${folder} is mounted noexec`)
      continue
    }
    try {
      const free = freeMiB(folder)
      if (free >= GUEST_MEMORY_MIB) return { folder }
      reasons.push(`${folder} has only ${free} MiB left`)
    } catch {
      reasons.push(`${folder} does not exist`)
    }
  }
  return {
    missing:
      `user-mode Linux needs a folder with ${GUEST_MEMORY_MIB} MiB that allows execution, and ${reasons.join(', ')}; ` +
      'please type, as root: mount -o remount,exec,size=3g /dev/shm',
  }
}

/** @param {string} folder */
function freeMiBOf(folder) {
  const { bavail, bsize } = statfsSync(folder)
  return Math.floor((bavail * bsize) / 1024 / 1024)
}
