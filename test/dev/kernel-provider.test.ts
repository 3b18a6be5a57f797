/** How a kernel for tests and demo is found, kept and refused. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { brotliCompressSync } from 'node:zlib'
import { cacheFolder, unfinishedFolder } from '../../dev/cache.mjs'
import { unpackedImage } from '../../dev/kernel/image.mjs'
import { memoryFolder } from '../../dev/kernel/memory-folder.mjs'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-provider-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

describe('cacheFolder', () => {
  it('prefers KUBE_IPVS_CACHE, then XDG_CACHE_HOME, then the home folder', () => {
    assert.equal(cacheFolder({ KUBE_IPVS_CACHE: '/srv/cache', XDG_CACHE_HOME: '/x' }), '/srv/cache')
    assert.equal(cacheFolder({ XDG_CACHE_HOME: '/x' }), '/x/kube-ipvs')
    assert.match(cacheFolder({}), /\/\.cache\/kube-ipvs$/)
  })
  it('refuses a relative path and one that a kernel command line cannot carry, naming the variable', () => {
    assert.throws(() => cacheFolder({ KUBE_IPVS_CACHE: 'cache' }), /KUBE_IPVS_CACHE is an absolute path, not "cache"/)
    assert.throws(() => cacheFolder({ KUBE_IPVS_CACHE: '/a b' }), /name another with KUBE_IPVS_CACHE/)
  })
})

describe('unfinishedFolder', () => {
  it('removes what a killed process left and keeps what a running one is making', () => {
    const dead = join(folder, '.unfinished-4194305-abcdef') // above the largest pid there can be
    const running = join(folder, `.unfinished-${process.pid}-abcdef`)
    mkdirSync(dead)
    mkdirSync(running)
    const made = unfinishedFolder(folder, 0)
    assert.deepEqual(
      readdirSync(folder).sort(),
      [made.slice(folder.length + 1), `.unfinished-${process.pid}-abcdef`].sort(),
    )
  })
  it('names the room that is needed and how to move the cache', () => {
    assert.throws(() => unfinishedFolder(folder, 1e9), /MiB left and needs 1000000000; .*KUBE_IPVS_CACHE/)
  })
  it('reports that a path which is not a folder cannot be written', () => {
    writeFileSync(join(folder, 'file'), '')
    assert.throws(
      () => unfinishedFolder(join(folder, 'file', 'below'), 0),
      /cannot be written \(ENOTDIR\); .*KUBE_IPVS_CACHE/,
    )
  })
})

describe('unpackedImage', () => {
  /** An image as `image/build.mjs` writes it, of a program that prints a version. */
  function image(program: string, sha256 = createHash('sha256').update(program).digest('hex')): string {
    const place = join(folder, 'image')
    mkdirSync(place, { recursive: true })
    writeFileSync(join(place, 'linux.br'), brotliCompressSync(program))
    writeFileSync(join(place, 'image.json'), JSON.stringify({ sha256 }))
    return place
  }
  const program = '#!/bin/sh\necho 7.2.12\n'
  const cache = (): string => join(folder, 'cache')
  const unpack = (from: string): ReturnType<typeof unpackedImage> => unpackedImage({ KUBE_IPVS_CACHE: cache() }, from)

  it('writes the program into the cache once and uses it from there afterwards', async () => {
    const from = image(program)
    const { kernel } = await unpack(from)
    const writtenMs = statSync(kernel).mtimeMs
    assert.equal(readFileSync(kernel, 'utf8'), program)
    assert.deepEqual(await unpack(from), { kind: 'uml', kernel })
    assert.equal(statSync(kernel).mtimeMs, writtenMs)
    assert.deepEqual(readdirSync(cache()), [basename(kernel)])
  })
  it('replaces a truncated file in the cache', async () => {
    const from = image(program)
    const { kernel } = await unpack(from)
    truncateSync(kernel, 5)
    await unpack(from)
    assert.equal(readFileSync(kernel, 'utf8'), program)
  })
  it('refuses an image whose SHA-256 is not the recorded one', async () => {
    await assert.rejects(unpack(image(program, '0'.repeat(64))), /does not have the SHA-256 that image.json says/)
    assert.ok(!existsSync(cache()))
  })
  it('reports that a program which ends with an error does not run here', async () => {
    await assert.rejects(unpack(image('#!/bin/sh\necho no vsyscall; exit 3\n')), /does not run here \(no vsyscall\)/)
  })
  it('unpacks the image of the repository', async () => {
    const { kernel } = await unpackedImage({ KUBE_IPVS_CACHE: cache() })
    assert.match(execFileSync(kernel, ['--version'], { encoding: 'utf8' }), /^\d+\.\d+\.\d+$/m)
  })
})

describe('memoryFolder', () => {
  const mounts = (options: string): string => `shm /dev/shm tmpfs ${options} 0 0\n/dev/vda / ext4 rw 0 0\n`
  it('is /dev/shm where that allows execution and has enough room', () => {
    assert.deepEqual(
      memoryFolder(mounts('rw,nosuid'), () => 4096),
      { folder: '/dev/shm' },
    )
  })
  it('skips a folder that forbids execution, is small, or is not mounted', () => {
    assert.deepEqual(
      memoryFolder(mounts('rw,noexec'), () => 4096),
      { folder: '/tmp' },
    )
    assert.deepEqual(
      memoryFolder(mounts('rw'), (path) => (path === '/var/tmp' ? 4096 : 64)),
      { folder: '/var/tmp' },
    )
    assert.deepEqual(
      memoryFolder('/dev/vda / ext4 rw 0 0\n', () => 4096),
      { folder: '/tmp' },
    )
  })
  it('names every reason and the remedy when no folder is suitable', () => {
    const missing = {
      missing:
        'user-mode Linux needs a folder with 2048 MiB that allows execution, and /dev/shm is mounted noexec, ' +
        '/tmp has only 64 MiB left, /var/tmp has only 64 MiB left; please type, as root: mount -o remount,exec,size=3g /dev/shm',
    }
    assert.deepEqual(
      memoryFolder(mounts('rw,noexec'), () => 64),
      missing,
    )
  })
})
