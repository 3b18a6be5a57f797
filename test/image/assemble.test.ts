/** What the assembled image contains, and that it is the same at every build; nothing of it is run here. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { assemble, joinLayers } from '../../dev/image/assemble.ts'
import {
  architectureOf,
  COMMANDS,
  DEBIAN_PACKAGES,
  LAUNCHER,
  LICENCES_FOLDER,
  MAX_LAUNCHER_LINE,
  packagesOf,
  SBOM_PATH,
  type Variant,
} from '../../dev/image/contents.ts'
import { entriesBelow } from '../../dev/image/layer.ts'
import type { Component } from '../../dev/image/sbom.ts'
import { Unmet } from '../../dev/progress.mjs'
import { findProgram } from '../../dev/packages.mjs'

/** Of the issue: 150 MB unpacked. */
const MAX_BYTES = 150_000_000

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-assemble-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const arch = architectureOf(process.arch)

const assembled = await assembleInto('first')

async function assembleInto(
  name: string,
  variant: Variant = 'full',
): Promise<readonly Component[] | { readonly missing: string }> {
  try {
    const into = join(folder, name)
    const components = await assemble({ arch, into, env: process.env, epochSeconds: 1_700_000_000, variant })
    await joinLayers(into, join(into, 'root'))
    return components
  } catch (error) {
    if (error instanceof Unmet) return { missing: error.message }
    throw error
  }
}

const isMissing = 'missing' in assembled
const components = isMissing ? [] : assembled
const root = join(folder, 'first/root')
const files = isMissing ? [] : entriesBelow(root).filter(({ kind }) => kind !== 'folder')

describe('the assembled image', { skip: isMissing ? `needs image (${assembled.missing})` : false }, () => {
  it('has at most 150 MB', () => {
    const bytes = files.reduce((sum, { size }) => sum + size, 0)
    assert.ok(bytes <= MAX_BYTES, `${bytes} bytes`)
  })

  it('has the same files with the same content, modes and times at every build', async () => {
    await assembleInto('elsewhere/second')
    const list = (name: string): string =>
      execFileSync('sh', ['-c', 'tar --sort=name --numeric-owner -cf - base program | sha256sum'], {
        cwd: join(folder, name),
        encoding: 'utf8',
      })
    assert.equal(list('first'), list('elsewhere/second'))
  })

  it('has no shell, no interpreter but node, no package manager and no set-user-ID file', () => {
    const executable = files.flatMap(({ path, kind, mode }) =>
      kind === 'file' && (mode & 0o111) !== 0 && !/\.(so[.\d]*|node)$/.test(path) ? [path] : [],
    )
    const programs = ['usr/bin/env', 'usr/local/bin/kube-ipvs', 'usr/local/bin/node']
    assert.deepEqual(executable, [...programs, 'usr/sbin/xtables-legacy-multi', 'usr/sbin/xtables-nft-multi'])
    for (const { path, mode } of files) assert.equal(mode & 0o6000, 0, path)
  })

  it('answers under the name that kubeadm uses, and under its own', () => {
    for (const command of COMMANDS) assert.equal(readFileSync(join(root, command), 'utf8'), LAUNCHER)
    const [line = ''] = LAUNCHER.split('\n')
    assert.ok(line.length < MAX_LAUNCHER_LINE, 'the kernel would cut the first line of the launcher')
  })

  it('has the programs of both back ends of iptables for both IP families', () => {
    for (const stem of ['iptables', 'ip6tables'])
      for (const kind of ['', '-nft', '-legacy'])
        for (const suffix of ['', '-save', '-restore'])
          assert.ok(statSync(join(root, `usr/sbin/${stem}${kind}${suffix}`)).isFile())
  })

  it('has every shared library that a program or library of it names', (t) => {
    if (findProgram('readelf') === undefined) return t.skip('needs program:readelf')
    assert.ok(objectsOf(root, files).length > 100)
    assert.deepEqual(missingLibraries(root, files), [])
  })

  it('has the licence of every part of it', () => {
    const copyrights = Object.keys(DEBIAN_PACKAGES).map((name) => `usr/share/doc/${name}/copyright`)
    const own = ['kube-ipvs', 'node'].map((name) => `${LICENCES_FOLDER}/${name}/LICENSE`)
    for (const file of [...copyrights, ...own]) assert.ok(existsSync(join(root, file)), file)
    // koffi's binary is a package without a file for the licence, which koffi has.
    const npm = components.filter(({ kind, name }) => kind === 'npm' && !name.startsWith('@koromix/'))
    assert.ok(npm.length > 10)
    for (const { name, version } of npm)
      assert.ok(readdirSync(join(root, LICENCES_FOLDER, 'npm', `${name}@${version}`)).length > 0, name)
  })

  it('lists every part of it in the SBOM, with a version and the digest of what was fetched', () => {
    const sbom = JSON.parse(readFileSync(join(root, SBOM_PATH), 'utf8')) as {
      readonly creationInfo: { readonly created: string }
      readonly packages: readonly {
        readonly name: string
        readonly SPDXID: string
        readonly checksums?: readonly object[]
      }[]
    }
    assert.equal(sbom.creationInfo.created, '2023-11-14T22:13:20Z')
    const names = sbom.packages.map(({ name }) => name)
    for (const name of ['kube-ipvs', 'node', 'koffi', 'winston', ...Object.keys(DEBIAN_PACKAGES)])
      assert.ok(names.includes(name), name)
    assert.equal(new Set(sbom.packages.map(({ SPDXID }) => SPDXID)).size, names.length)
    assert.deepEqual(
      sbom.packages.filter(({ checksums }) => checksums === undefined).map(({ name }) => name),
      ['kube-ipvs'],
    )
  })

  it('is the same without iptables but for its programs, its libraries and what lists them', async (t) => {
    const without = await assembleInto('without', 'without-iptables')
    assert.ok(!('missing' in without))
    const bare = join(folder, 'without/root')
    const left = entriesBelow(bare).filter(({ kind }) => kind !== 'folder')
    const paths = new Set(left.map(({ path }) => path))
    const gone = files.map(({ path }) => path).filter((path) => !paths.has(path))
    const OF_IPTABLES = /ip6?tables|xtables|lib(ip4tc|ip6tc|mnl|netfilter.conntrack|nfnetlink|nftnl)[\d.s]/
    assert.deepEqual(
      gone.filter((path) => !OF_IPTABLES.test(path)),
      [],
    )
    assert.deepEqual(
      left.filter(({ path }) => OF_IPTABLES.test(path)),
      [],
    )
    const sizes = [left, files].map((list) => list.reduce((sum, { size }) => sum + size, 0))
    t.diagnostic(`${sizes.join(' and ')} bytes without and with iptables`)
    for (const { path, kind } of left)
      if (kind === 'file' && path !== SBOM_PATH)
        assert.ok(readFileSync(join(bare, path)).equals(readFileSync(join(root, path))), path)
    const names = without.flatMap(({ kind, name }) => (kind === 'debian' ? [name] : []))
    assert.deepEqual(names, packagesOf('without-iptables'))
    if (findProgram('readelf') !== undefined) assert.deepEqual(missingLibraries(bare, left), [])
  })
})

type Files = ReturnType<typeof entriesBelow>

/** Programs and libraries. */
function objectsOf(root: string, files: Files): readonly string[] {
  return files.flatMap(({ path, kind }) =>
    kind === 'file' && readFileSync(join(root, path), 'latin1').startsWith('\x7fELF') ? [path] : [],
  )
}

/** Libraries that a program or library names, and that are not there. */
function missingLibraries(root: string, files: Files): readonly string[] {
  const names = new Set(files.map(({ path }) => basename(path)))
  const args = ['-d', ...objectsOf(root, files)]
  const headers = execFileSync('readelf', args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 })
  const needed = new Set([...headers.matchAll(/\(NEEDED\).*\[(.*)\]/g)].map((match) => match[1] ?? ''))
  return [...needed].filter((name) => !names.has(name))
}
