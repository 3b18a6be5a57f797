/** The OCI layout of small layers: digests, sizes, what a registry reads, and that tar reads the layers. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { type Architecture, RUN_CONFIGURATION } from '../../dev/image/contents.ts'
import { tarOf } from '../../dev/image/layer.ts'
import { type Descriptor, writeLayout } from '../../dev/image/oci-layout.ts'

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-oci-'))
after(() => rmSync(folder, { recursive: true }))

const LONG = `${'folder/'.repeat(20)}file`
const FACTS = { version: '1.2.3', created: '2023-11-14T22:13:20Z', revision: 'abc', source: undefined }

/** An assembled image with a program, a link, a path that is too long for a plain tar header, and an empty folder. */
function small(arch: Architecture): { readonly arch: Architecture; readonly folder: string } {
  const top = join(folder, arch)
  mkdirSync(join(top, 'base', LONG, '..'), { recursive: true })
  mkdirSync(join(top, 'base/proc'))
  mkdirSync(join(top, 'program'))
  writeFileSync(join(top, 'base', LONG), 'deep')
  writeFileSync(join(top, 'base/program'), arch)
  chmodSync(join(top, 'base/program'), 0o755)
  symlinkSync('program', join(top, 'base/link'))
  writeFileSync(join(top, 'program/text'), 'x'.repeat(513))
  chmodSync(join(top, 'program/text'), 0o644)
  return { arch, folder: top }
}

const images = [small('x64'), small('arm64')]
const layout = join(folder, 'layout')
const written = await writeLayout(layout, images, FACTS, 'v1.2.3')

const blob = ({ digest }: Descriptor): Buffer =>
  readFileSync(join(layout, 'blobs/sha256', digest.slice('sha256:'.length)))
const json = (descriptor: Descriptor): Record<string, unknown> => JSON.parse(blob(descriptor).toString('utf8'))
const sha256 = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

describe('OCI layout', () => {
  it('names its index by the tag, and an image for each architecture in it', () => {
    const top = JSON.parse(readFileSync(join(layout, 'index.json'), 'utf8')) as {
      readonly manifests: readonly object[]
    }
    assert.deepEqual(top.manifests, [
      { ...written.index, annotations: { 'org.opencontainers.image.ref.name': 'v1.2.3' } },
    ])
    const manifests = json(written.index)['manifests'] as readonly { readonly platform: object }[]
    assert.deepEqual(
      manifests.map(({ platform }) => platform),
      [
        { architecture: 'amd64', os: 'linux' },
        { architecture: 'arm64', os: 'linux' },
      ],
    )
    assert.deepEqual(JSON.parse(readFileSync(join(layout, 'oci-layout'), 'utf8')), { imageLayoutVersion: '1.0.0' })
  })

  it('has exactly the blobs that it names, each with its digest and size', () => {
    const configs = written.images.map(({ manifest }) => json(manifest)['config'] as Descriptor)
    const layers = written.images.flatMap(({ layers }) => layers)
    const all = [written.index, ...written.images.map(({ manifest }) => manifest), ...configs, ...layers]
    for (const one of all) assert.deepEqual([sha256(blob(one)), blob(one).length], [one.digest, one.size])
    const files = readdirSync(join(layout, 'blobs/sha256')).toSorted()
    assert.deepEqual(files, [...new Set(all.map(({ digest }) => digest.slice('sha256:'.length)))].toSorted())
  })

  it('starts the program, has the labels, and names its layers before compression', () => {
    for (const { manifest, diffIds, layers } of written.images) {
      const config = json(json(manifest)['config'] as Descriptor)
      const { Labels, ...run } = config['config'] as { readonly Labels: Readonly<Record<string, string>> }
      assert.deepEqual(run, RUN_CONFIGURATION)
      assert.equal(Labels['org.opencontainers.image.version'], '1.2.3')
      assert.equal(Labels['org.opencontainers.image.revision'], 'abc')
      assert.ok(!('org.opencontainers.image.source' in Labels))
      assert.deepEqual(config['rootfs'], { type: 'layers', diff_ids: diffIds })
      assert.deepEqual(
        layers.map((layer) => sha256(gunzipSync(blob(layer)))),
        diffIds,
      )
    }
  })

  it('is the same when it is written again', async () => {
    assert.deepEqual(await writeLayout(join(folder, 'again'), images, FACTS, 'v1.2.3'), written)
  })

  it('has layers that tar reads: owner 0, time 0, modes, links and long paths', () => {
    const [base] = written.images[0]?.layers ?? []
    assert.ok(base !== undefined)
    const unpack = (...args: string[]): string =>
      execFileSync('tar', [...args], {
        input: gunzipSync(blob(base)),
        encoding: 'utf8',
        env: { ...process.env, TZ: 'UTC' },
      })
    const lines = unpack('-tv', '--numeric-owner', '-f', '-').trim().split('\n')
    for (const line of lines) assert.match(line, /^\S+ 0\/0 +\d+ 1970-01-01 00:00 /)
    assert.ok(lines.some((line) => /^-rwxr-xr-x .* program$/.test(line)))
    assert.ok(lines.some((line) => /^lrwxrwxrwx .* link -> program$/.test(line)))
    assert.ok(lines.some((line) => line.endsWith(` ${LONG}`)))
    assert.equal(unpack('-xO', '-f', '-', LONG), 'deep')
  })

  it('refuses a path that a tar archive cannot name', () => {
    const top = join(folder, 'too-long')
    mkdirSync(top)
    writeFileSync(join(top, 'x'.repeat(120)), '')
    assert.throws(() => [...tarOf(top)], /the path x+ is too long for a tar archive/)
  })
})
