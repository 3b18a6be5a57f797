/** The script of a release: its checks of versions, and a dry run into a folder. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { findHelm } from '../../dev/helm/program.ts'
import { architectureOf, DEBIAN_NAME } from '../../dev/image/contents.ts'
import { debianPackages } from '../../dev/image/debian-packages.ts'
import { Unmet, projectFolder } from '../../dev/progress.mjs'
import { type ReleaseTexts, readReleaseTexts, versionProblems } from '../../dev/release/versions.ts'
import { VERSION } from '../../src/values/well-known.ts'
import { rowsOfRun } from '../support/extent.ts'
import { needsHelm } from '../helm/helm.ts'

describe('the version of a release', () => {
  const texts: ReleaseTexts = {
    packageJson: '{ "version": "1.2.3" }',
    chart: 'version: 1.2.3\nappVersion: "1.2.3"\n',
    dockerfile: 'ARG REVISION\nARG VERSION=1.2.3\n',
    changelog: '# Changelog\n\n## 1.2.3 (2026-11-22)\n',
  }

  it('has no problem when all places name it and the changelog has its date', () => {
    assert.deepEqual(versionProblems('1.2.3', texts), [])
  })

  it('is refused, with every place that names another one', () => {
    assert.deepEqual(versionProblems('1.2.4', texts), [
      'version in package.json is 1.2.3, and the release is 1.2.4',
      'version in helm/Chart.yaml is 1.2.3, and the release is 1.2.4',
      'appVersion in helm/Chart.yaml is 1.2.3, and the release is 1.2.4',
      'VERSION in Dockerfile is 1.2.3, and the release is 1.2.4',
      'CHANGELOG.md has no heading for 1.2.4',
    ])
  })

  it('is refused while the changelog has no date for it', () => {
    const changelog = '## 1.2.3 (not released yet)\n'
    assert.deepEqual(versionProblems('1.2.3', { ...texts, changelog }), [
      'CHANGELOG.md has no date for 1.2.3: "## 1.2.3 (YYYY-MM-DD)"',
    ])
  })

  it('is the same in every place of this repository', () => {
    const others = versionProblems(VERSION, readReleaseTexts()).filter((problem) => !problem.includes('no date'))
    assert.deepEqual(others, [])
  })
})

const OWN_ARCH = architectureOf(process.arch)
const missing = await debianPackages(OWN_ARCH, process.env).then(
  () => undefined,
  (error: unknown) => {
    if (error instanceof Unmet) return error.message
    throw error
  },
)

// It builds everything, which takes twelve seconds of processor time.
for (const arch of rowsOfRun([OWN_ARCH], () => false))
  describe(`a dry run of the release for ${arch}`, {
    skip: missing === undefined ? false : `needs image (${missing})`,
  }, () => {
    const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-release-test-'))
    after(() => rmSync(folder, { recursive: true }))
    const args = ['dev/release.ts', '--dry-run', '--into', folder, '--arch', arch, '--source', 'https://example.org/x']
    // With another umask than other builds, which must not change the archives.
    const { status, stdout, stderr } = spawnSync(
      'sh',
      ['-c', 'umask 077; exec "$@"', 'sh', process.execPath, ...args],
      {
        cwd: projectFolder,
        encoding: 'utf8',
      },
    )
    /** `-rw-r--r-- 0/0 1970-01-01`, of each entry. */
    const entriesOf = (archive: string): readonly string[] =>
      execFileSync('tar', ['--utc', '--numeric-owner', '-tvf', join(folder, archive)], { encoding: 'utf8' })
        .trimEnd()
        .split('\n')
        .map((line) => line.replace(/^(\S+) +(\S+) +\d+ (\S+) .*$/, '$1 $2 $3'))
    const PLAIN = ['-rw-r--r-- 0/0 1970-01-01', 'drwxr-xr-x 0/0 1970-01-01']
    const files = readdirSync(folder)

    it('writes both images with their SBOMs, OpenVEX, provenance and checksums, and the chart where helm is', () => {
      assert.equal(status, 0, stderr)
      const names = [`kube-ipvs-${VERSION}`, `kube-ipvs-${VERSION}-without-iptables`].flatMap((image) => [
        `${image}-linux-${DEBIAN_NAME[arch]}.spdx.json`,
        `${image}.oci.tar`,
      ])
      const chart = findHelm(process.env) === undefined ? [] : [`kube-ipvs-${VERSION}.tgz`]
      const all = [
        'SHA256SUMS',
        ...names,
        `kube-ipvs-${VERSION}.provenance.json`,
        `kube-ipvs-${VERSION}.openvex.json`,
        ...chart,
      ]
      assert.deepEqual(files.toSorted(), all.toSorted())
      assert.match(execFileSync('sha256sum', ['-c', 'SHA256SUMS'], { cwd: folder, encoding: 'utf8' }), /oci\.tar: OK/)
    })

    it('writes archives that depend on no time and no umask', () => {
      for (const archive of files.filter((file) => /\.(tar|tgz)$/.test(file)))
        assert.deepEqual([...new Set(entriesOf(archive))].toSorted(), PLAIN, archive)
    })

    it('writes the chart, which helm reads, and its checksum', needsHelm, () => {
      const chart = `kube-ipvs-${VERSION}.tgz`
      const shown = execFileSync(findHelm(process.env) ?? 'helm', ['show', 'chart', join(folder, chart)], {
        encoding: 'utf8',
      })
      assert.match(shown, new RegExp(`^version: ${VERSION}$`, 'm'))
      assert.ok(files.includes(chart), files.join(', '))
      assert.match(readFileSync(join(folder, 'SHA256SUMS'), 'utf8'), new RegExp(`^[0-9a-f]{64}  ${chart}$`, 'm'))
    })

    it('writes a provenance that names every artifact, the commit, and what was fetched', () => {
      const { subject, predicate } = JSON.parse(
        readFileSync(join(folder, `kube-ipvs-${VERSION}.provenance.json`), 'utf8'),
      ) as {
        readonly subject: readonly { readonly name: string; readonly digest: { readonly sha256: string } }[]
        readonly predicate: {
          readonly buildDefinition: {
            readonly externalParameters: object
            readonly resolvedDependencies: readonly { readonly uri: string; readonly digest: object }[]
          }
        }
      }
      const revision = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: projectFolder, encoding: 'utf8' }).trim()
      const source = 'git+https://example.org/x'
      const { externalParameters, resolvedDependencies } = predicate.buildDefinition
      assert.deepEqual(externalParameters, { version: VERSION, source, revision, isDryRun: true })
      assert.deepEqual(resolvedDependencies[0], { uri: `${source}@${revision}`, digest: { gitCommit: revision } })
      for (const name of ['pkg:generic/node@', 'pkg:npm/koffi@', 'pkg:deb/debian/iptables@'])
        assert.ok(
          resolvedDependencies.some(({ uri }) => uri.startsWith(name)),
          name,
        )
      const artifacts = files.filter((file) => !/SHA256SUMS|provenance/.test(file))
      const names = subject.map(({ name }) => name)
      for (const file of artifacts) assert.ok(names.includes(file), file)
      const images = subject
        .filter(({ name }) => name.includes('/'))
        .map(({ name, digest }) => `${name} sha256:${digest.sha256}`)
      const said = [...stdout.matchAll(/^Image (\S+):(v[^@]+)@(\S+)$/gm)]
      assert.deepEqual(
        said.map(([, name, , digest]) => `${name} ${digest}`),
        images,
      )
      assert.deepEqual(
        said.map(([, , tag]) => tag),
        [`v${VERSION}`, `v${VERSION}-without-iptables`],
      )
    })

    it('writes an image without iptables, whose SBOM has nothing of it', () => {
      const packages = (image: string): readonly string[] => {
        const file = join(folder, `${image}-linux-${DEBIAN_NAME[arch]}.spdx.json`)
        const sbom = JSON.parse(readFileSync(file, 'utf8')) as {
          readonly packages: readonly { readonly name: string }[]
        }
        return sbom.packages.map(({ name }) => name)
      }
      const full = packages(`kube-ipvs-${VERSION}`)
      const without = packages(`kube-ipvs-${VERSION}-without-iptables`)
      assert.ok(full.includes('iptables') && !without.includes('iptables'))
      assert.equal(full.length - without.length, 8)
    })

    it('says that nothing was pushed and that nothing of it may be pushed', () => {
      assert.match(stdout, /Nothing was pushed/)
      assert.match(stdout, /This was a dry run/)
      assert.doesNotMatch(stdout, /skopeo|helm push/)
    })
  })
