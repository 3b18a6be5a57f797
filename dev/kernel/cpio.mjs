/**
 * An initial RAM disk: the "newc" archive format of Documentation/driver-api/early-userspace/buffer-format.rst.
 * What could break: names and contents are each padded to four bytes, counted from the archive's start.
 */

/**
 * @param {readonly { name: string, mode: number, content: Buffer }[]} entries folders before what is in them
 * @returns {Buffer}
 */
export function cpio(entries) {
  const parts = entries.map((entry, index) => record(entry, index + 1))
  return Buffer.concat([...parts, record({ name: 'TRAILER!!!', mode: 0, content: Buffer.alloc(0) }, 0)])
}

/** @param {{ name: string, mode: number, content: Buffer }} entry @param {number} inode */
function record({ name, mode, content }, inode) {
  const links = 1
  const nameSize = Buffer.byteLength(name) + 1
  const fields = [inode, mode, 0, 0, links, 0, content.length, 0, 0, 0, 0, nameSize, 0]
  const header = `070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}`
  return Buffer.concat([padded(Buffer.from(`${header}${name}\0`)), padded(content)])
}

/** @param {Buffer} bytes */
const padded = (bytes) => Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)])
