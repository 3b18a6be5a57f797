/** Kernel settings written to a folder in place of /proc and /sys. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { defaultConfiguration } from '../support/configuration.ts'
import { conntrackSettings, type KernelSetting, sysctl } from '../../src/node/kernel-settings.ts'
import { applySysctls, refusalOf } from '../../src/node/sysctl.ts'

const HASH_SIZE: KernelSetting = {
  path: '/sys/module/nf_conntrack/parameters/hashsize',
  value: 32_768,
  rule: 'at least',
}

describe('applySysctls', () => {
  let root: string
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'kube-ipvs-sysctl-'))
  })
  afterEach(() => rmSync(root, { recursive: true }))

  function file(path: string, value: string): string {
    mkdirSync(dirname(root + path), { recursive: true })
    writeFileSync(root + path, value)
    return root + path
  }
  const value = (path: string): string => readFileSync(root + path, 'utf8').trim()
  const forward = sysctl('net/ipv4/ip_forward', 1)

  it('writes settings that differ and does not touch the others', () => {
    file(forward.path, '0\n')
    const same = sysctl('net/ipv4/vs/conntrack', 1)
    const untouched = file(same.path, '1\n')
    utimesSync(untouched, 1, 1)
    assert.deepEqual(applySysctls([forward, same], root), [])
    assert.deepEqual([value(forward.path), statSync(untouched).mtimeMs], ['1', 1000])
  })

  it('never lowers a setting with the rule "at least"', () => {
    for (const [before, after] of [
      ['65536', '65536'],
      ['32768', '32768'],
      ['16384', '32768'],
    ] as const) {
      file(HASH_SIZE.path, `${before}\n`)
      assert.deepEqual(applySysctls([HASH_SIZE], root), [])
      assert.equal(value(HASH_SIZE.path), after)
    }
  })

  it('never lowers the largest number of flows, and raises the hash size for it all the same', () => {
    const { conntrack } = defaultConfiguration()
    const settings = conntrackSettings({ ...conntrack, maxPerCore: 1000, min: 200_000 }, 2).slice(0, 2)
    const [limit, hashSize] = ['/proc/sys/net/netfilter/nf_conntrack_max', HASH_SIZE.path] as const
    for (const [before, after] of [
      [600_000, 600_000],
      [200_000, 200_000],
      [65_536, 200_000],
    ] as const) {
      file(limit, `${before}\n`)
      file(hashSize, '16384\n')
      const changed: string[] = []
      assert.deepEqual(
        applySysctls(settings, root, ({ path }) => changed.push(path)),
        [],
      )
      assert.deepEqual([value(limit), value(hashSize)], [String(after), '50000'])
      assert.deepEqual(changed, before < after ? [limit, hashSize] : [hashSize])
    }
  })

  it('writes a setting that cannot be understood', () => {
    file(HASH_SIZE.path, 'many\n')
    assert.deepEqual(applySysctls([HASH_SIZE], root), [])
    assert.equal(value(HASH_SIZE.path), '32768')
  })

  it('makes no file for a setting that does not exist', () => {
    const missing = sysctl('net/ipv4/vs/conntrack', 1)
    mkdirSync(dirname(root + missing.path), { recursive: true })
    assert.equal(applySysctls([missing], root).length, 1)
    assert.equal(existsSync(root + missing.path), false)
  })

  it('reports settings that do not exist and writes the others', () => {
    file(forward.path, '0\n')
    const [problem, ...more] = applySysctls([sysctl('net/ipv4/vs/conntrack', 1), HASH_SIZE, forward], root)
    assert.deepEqual(problem, {
      code: 'sysctl',
      about: 'setting',
      subject: 'sysctl',
      field: 'net/ipv4/vs/conntrack',
      message: 'cannot set it to 1: this kernel does not have it, or its module is not loaded',
    })
    assert.deepEqual(
      more.map(({ field }) => field),
      [HASH_SIZE.path],
    )
    assert.equal(value(forward.path), '1')
  })

  it('reports why a setting cannot be written', () => {
    mkdirSync(root + forward.path, { recursive: true })
    assert.match(applySysctls([forward], root)[0]?.message ?? '', /^cannot set it to 1: EISDIR/)
  })

  it('says beforehand whether a setting can hold, and changes nothing', () => {
    assert.match(refusalOf(forward, root)?.message ?? '', /^ENOENT/)
    assert.equal(existsSync(root + forward.path), false)
    for (const before of ['0\n', '1\n']) {
      file(forward.path, before)
      assert.equal(refusalOf(forward, root), undefined)
      assert.equal(readFileSync(root + forward.path, 'utf8'), before)
    }
  })
})
