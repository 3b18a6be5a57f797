/**
 * Packages of another Debian release: apt verifies what a mirror sends, and nothing waits for a
 * mirror without an end.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { openDebianRelease } from '../../dev/debian-archive.mjs'
import { Unmet } from '../../dev/progress.mjs'
import { deadline } from '../support/deadline.ts'
import { type Fault, Mirror, type MirrorOptions, needsDebian } from './debian-archive/mirror.ts'

const SUITE = 'trixie-backports'
const PACKAGES = ['golang-1.99-go', 'golang-1.99-src']

describe('openDebianRelease', needsDebian, () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-archive-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))
  const unpacked = (): string => join(folder, 'unpacked')

  async function failure(options: MirrorOptions): Promise<string> {
    await using mirror = await new Mirror(options).listen()
    const done = openDebianRelease(SUITE, join(folder, 'apt'), mirror.options).then((release) =>
      release.unpack(PACKAGES, unpacked()),
    )
    const error: unknown = await done.then(
      () => undefined,
      (reason: unknown) => reason,
    )
    assert.ok(error instanceof Unmet, String(error))
    return error.message
  }

  it('unpacks packages that a mirror has, and says which version it has and what it depends on', async () => {
    await using mirror = await new Mirror({ releases: { [SUITE]: 'new' } }).listen()
    const release = await openDebianRelease(SUITE, join(folder, 'apt'), mirror.options)
    assert.equal(await release.version('golang-go'), '2:1.99~1')
    assert.equal(await release.version('golang-1.98-go'), undefined)
    assert.deepEqual(await release.dependencies('golang-go'), ['golang-1.99-go'])
    assert.deepEqual(await release.dependencies('golang-1.99-go'), [])
    await release.unpack(PACKAGES, unpacked())
    assert.match(readFileSync(join(unpacked(), 'usr/lib/go-1.99/bin/go'), 'utf8'), /FAKE_GO/)
    assert.deepEqual(readdirSync(join(unpacked(), 'usr')).toSorted(), ['lib', 'share'])
  })

  it('reports the status of a mirror that refuses', async () => {
    assert.match(await failure({ everything: 403 }), /mirror http:\S+ did not give a verified trixie-backports \(.*403/)
  })

  it('reports a mirror that is silent within its time limit', async () => {
    const startedAt = performance.now()
    assert.match(
      await failure({ everything: 'silence' }),
      /did not give a verified trixie-backports \(Connection (?:failed|timed out)/,
    )
    assert.ok(performance.now() - startedAt < deadline(15_000))
  })

  it('refuses a release that another key has signed', async () => {
    await using mirror = await new Mirror({ releases: { [SUITE]: 'new' } }).listen()
    const debians = '/usr/share/keyrings/debian-archive-keyring.gpg'
    const options = { ...mirror.options, keyring: existsSync(debians) ? debians : debians.replace('.gpg', '.pgp') }
    await assert.rejects(openDebianRelease(SUITE, join(folder, 'apt'), options), {
      message: /did not give a verified trixie-backports \(.*(NO_PUBKEY|not signed|Missing key)/,
    })
  })

  const faults: Readonly<Record<Fault, RegExp>> = {
    changed: /golang-1\.99-go, golang-1\.99-src could not be fetched \(.*Hash Sum mismatch/,
    truncated: /golang-1\.99-go, golang-1\.99-src could not be fetched \(.*/,
    lost: /golang-1\.99-go, golang-1\.99-src could not be fetched \(.*404/,
  }
  for (const [fault, message] of Object.entries(faults) as [Fault, RegExp][])
    it(`unpacks nothing of packages that are ${fault}`, async () => {
      assert.match(await failure({ releases: { [SUITE]: 'new' }, packages: fault }), message)
      assert.ok(!existsSync(unpacked()))
    })
})
