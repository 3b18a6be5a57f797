/**
 * What is given back, and that a process works afterwards.
 * @alone The memory of the process is measured.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { releaseFilePages, releaseFreedMemory, unchangedMappings } from '../../native/memory.ts'

const mapping = (header: string, rss: number, anonymous: number): string =>
  `${header}\nSize:              40000 kB\nRss:               ${rss} kB\nAnonymous:         ${anonymous} kB\nVmFlags: rd ex mr mw me\n`

describe('unchangedMappings', () => {
  it('takes resident mappings of a file that nothing can or did change', () => {
    const smaps = [
      mapping('00400000-02400000 r-xp 00000000 fe:00 131 /usr/bin/node', 20_000, 0),
      mapping('7f0000000000-7f0000100000 r--p 00000000 fe:00 131 /usr/bin/node', 900, 0),
    ].join('')
    assert.deepEqual(unchangedMappings(smaps), [
      { from: 0x400000n, to: 0x2400000n, residentKib: 20_000 },
      { from: 0x7f0000000000n, to: 0x7f0000100000n, residentKib: 900 },
    ])
  })

  it('leaves changed pages, writable and shared mappings, anonymous memory and small mappings', () => {
    const smaps = [
      mapping('1000-2000 r--p 00000000 fe:00 131 /usr/bin/node (relocated)', 900, 4),
      mapping('2000-3000 rw-p 00000000 fe:00 131 /usr/bin/node', 900, 0),
      mapping('3000-4000 r-xs 00000000 fe:00 131 /usr/bin/node', 900, 0),
      mapping('4000-5000 r-xp 00000000 00:00 0 ', 900, 0),
      mapping('5000-6000 r-xp 00000000 fe:00 131 /usr/lib/libm.so.6', 100, 0),
    ].join('')
    assert.deepEqual(unchangedMappings(smaps), [])
  })
})

describe('releaseFilePages', () => {
  it('lowers the resident memory of files, and the process continues', () => {
    const resident = (): number =>
      Number(/^RssFile:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1])
    const before = resident()
    const released = releaseFilePages()
    const after = resident()
    assert.ok(released > 5000, `${released} KiB released`)
    assert.ok(after < before - released / 2, `${before} KiB before, ${after} KiB after`)
    // Code that was given back is read again.
    assert.deepEqual(JSON.parse(JSON.stringify(new Map([[1, /x/u.source]]).get(1))), 'x')
    assert.equal(new Intl.NumberFormat('en').format(1234.5), '1,234.5')
  })
})

describe('releaseFreedMemory', () => {
  it('returns memory that was freed between pieces that are in use', () => {
    setFlagsFromString('--expose-gc')
    // Otherwise a thread of V8 frees what a collection has found, some time later.
    setFlagsFromString('--no-concurrent-array-buffer-sweeping')
    const collect = runInNewContext('gc') as () => void
    // The C library takes pieces of this size from its heap; larger ones it maps and unmaps one by one.
    let pieces = Array.from({ length: 2_000 }, () => Buffer.alloc(40 * 1024, 1))
    pieces = pieces.filter((_, index) => index % 100 === 99)
    collect()
    const before = process.memoryUsage.rss()
    releaseFreedMemory()
    const after = process.memoryUsage.rss()
    assert.ok(after < before - 40 * 1024 * 1024, `${before} bytes before, ${after} bytes after`)
    assert.ok(pieces.every((piece) => piece.length === 40 * 1024 && piece.every((byte) => byte === 1)))
  })
})
