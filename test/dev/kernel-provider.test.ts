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
import { LOAD_LIST, loadOrder, sumOfModules } from '../../dev/kernel/modules.mjs'
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
  it('refuses a path that is relative, that a kernel command line cannot carry or no guest sees', () => {
    assert.throws(() => cacheFolder({ KUBE_IPVS_CACHE: 'cache' }), /KUBE_IPVS_CACHE is an absolute path, not "cache"/)
    assert.throws(() => cacheFolder({ KUBE_IPVS_CACHE: '/a b' }), /name another with KUBE_IPVS_CACHE/)
    assert.throws(() => cacheFolder({ KUBE_IPVS_CACHE: '/dev/shm/c' }), /no guest .*another with KUBE_IPVS_CACHE/)
    assert.equal(cacheFolder({ KUBE_IPVS_CACHE: '/devel/c' }), '/devel/c')
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
  function image(program: string, wrong: { readonly sha256?: string; readonly modules?: string } = {}): string {
    const place = join(folder, 'image')
    const modules = join(folder, 'modules')
    for (const path of [place, join(modules, '7.2.12')]) mkdirSync(path, { recursive: true })
    writeFileSync(join(modules, '7.2.12/x_tables.ko'), 'a module')
    const sha256 = createHash('sha256').update(program).digest('hex')
    const sums = { sha256, modules: { sha256: wrong.modules ?? sumOfModules(modules) } }
    writeFileSync(join(place, 'linux.br'), brotliCompressSync(program))
    writeFileSync(join(place, 'modules.tar.br'), brotliCompressSync(execFileSync('tar', ['-cC', modules, '.'])))
    writeFileSync(join(place, 'image.json'), JSON.stringify({ ...sums, sha256: wrong.sha256 ?? sha256 }))
    return place
  }
  const program = '#!/bin/sh\necho 7.2.12\n'
  const WRONG = '0'.repeat(64)
  const cache = (): string => join(folder, 'cache')
  const unpack = (from: string): ReturnType<typeof unpackedImage> => unpackedImage({ KUBE_IPVS_CACHE: cache() }, from)

  it('writes program and modules into the cache once and uses them from there afterwards', async () => {
    const from = image(program)
    const { kernel, modules } = await unpack(from)
    const writtenMs = [kernel, modules].map((path) => statSync(path).ctimeMs)
    assert.equal(readFileSync(kernel, 'utf8'), program)
    assert.equal(readFileSync(join(modules, '7.2.12/x_tables.ko'), 'utf8'), 'a module')
    assert.deepEqual(await unpack(from), { kind: 'uml', kernel, modules, modular: 'firewall' })
    assert.deepEqual(
      [kernel, modules].map((path) => statSync(path).ctimeMs),
      writtenMs,
    )
    assert.deepEqual(readdirSync(cache()).sort(), [basename(kernel), basename(modules)])
  })
  it('replaces what is truncated, missing or more than it should be in the cache', async () => {
    const from = image(program)
    const { kernel, modules } = await unpack(from)
    const module = join(modules, '7.2.12/x_tables.ko')
    const extra = join(modules, '7.2.12/other.ko')
    for (const damage of [
      () => truncateSync(kernel, 5),
      () => truncateSync(module, 5),
      () => rmSync(module),
      () => writeFileSync(extra, ''),
    ]) {
      damage()
      await unpack(from)
      assert.equal(readFileSync(kernel, 'utf8'), program)
      assert.equal(readFileSync(module, 'utf8'), 'a module')
      assert.ok(!existsSync(extra))
    }
  })
  it('refuses a program and modules whose SHA-256 is not the recorded one', async () => {
    const refusal = /(\S+) does not have the SHA-256 that image.json says/
    await assert.rejects(unpack(image(program, { sha256: WRONG })), refusal)
    assert.deepEqual(readdirSync(cache()), [])
    await assert.rejects(unpack(image(program, { modules: WRONG })), /modules\.tar\.br does not have the SHA-256/)
    assert.deepEqual(
      readdirSync(cache()).filter((name) => !name.startsWith('linux-')),
      [],
    )
  })
  it('reports that a program which ends with an error does not run here', async () => {
    await assert.rejects(unpack(image('#!/bin/sh\necho no vsyscall; exit 3\n')), /does not run here \(no vsyscall\)/)
  })
  it('unpacks the image of the repository, whose modules are for its kernel and in an order that loads', async () => {
    const { kernel, modules } = await unpackedImage({ KUBE_IPVS_CACHE: cache() })
    const release = execFileSync(kernel, ['--version'], { encoding: 'utf8' }).trim()
    assert.match(release, /^\d+\.\d+\.\d+$/)
    assert.deepEqual(readdirSync(modules), [release])
    const text = (file: string): string => readFileSync(join(modules, release, file), 'utf8')
    const loaded = text(LOAD_LIST).trim().split('\n')
    const dependencies = new Map(
      Array.from(text('modules.dep').matchAll(/^(\S+)\.ko:(.*)$/gm), ([, name = '', needed = '']) => [
        name,
        Array.from(needed.matchAll(/(\S+)\.ko/g), ([, one = '']) => one),
      ]),
    )
    for (const name of ['ip_set', 'ip_set_hash_ipport', 'x_tables', 'iptable_nat', 'nft_compat', 'nft_fib', 'xt_ipvs'])
      assert.ok(loaded.includes(name), name)
    for (const [index, name] of loaded.entries()) {
      const needed = dependencies.get(name)
      assert.ok(needed !== undefined, name)
      for (const other of needed) assert.ok(loaded.slice(0, index).includes(other), `${name} needs ${other}`)
    }
  })
})

describe('loadOrder', () => {
  it('puts every module behind those that it needs', () => {
    const dependencies = 'xt_set.ko: ip_set.ko x_tables.ko\nx_tables.ko:\nip_set_list.ko: ip_set.ko\nip_set.ko:\n'
    assert.deepEqual(loadOrder(dependencies), ['ip_set', 'x_tables', 'ip_set_list', 'xt_set'])
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
