/** The loader that an ELF program asks for (elf(5), PT_INTERP), replaced by another. */

const MAGIC = 0x464c457f
const ELFCLASS64 = 2
const PT_INTERP = 3

/** The same program with another loader: its path is appended, and the program header points to it. */
export function withInterpreter(program: Buffer, loader: string): Buffer {
  if (program.length < 64 || program.readUInt32LE(0) !== MAGIC || program[4] !== ELFCLASS64)
    throw new Error('this is no 64-bit ELF program')
  const path = Buffer.from(`${loader}\0`)
  const changed = Buffer.concat([program, path])
  const [first, size, count] = [Number(program.readBigUInt64LE(32)), program.readUInt16LE(54), program.readUInt16LE(56)]
  for (let index = 0; index < count; index++) {
    const header = first + index * size
    if (changed.readUInt32LE(header) !== PT_INTERP) continue
    changed.writeBigUInt64LE(BigInt(program.length), header + 8) // p_offset
    changed.writeBigUInt64LE(BigInt(path.length), header + 32) // p_filesz
    return changed
  }
  throw new Error('this program asks for no loader')
}
