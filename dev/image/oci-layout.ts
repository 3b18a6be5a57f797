/**
 * Writes assembled images as an OCI image layout (opencontainers/image-spec): one image for each
 * architecture and an index of them. Tools such as skopeo and crane copy the folder to a registry
 * as it is. The digests depend on the files, the labels and the compressor only.
 */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { LAYERS } from './assemble.ts'
import { type Architecture, DEBIAN_NAME, type ImageFacts, labelsOf, RUN_CONFIGURATION } from './contents.ts'
import { tarOf } from './layer.ts'

/** A blob as the specification describes it. */
export interface Descriptor {
  readonly mediaType: string
  /** `sha256:...` */
  readonly digest: string
  readonly size: number
}

export interface AssembledImage {
  readonly arch: Architecture
  /** What `assemble` made: one folder for each layer. */
  readonly folder: string
}

export interface WrittenImage {
  readonly arch: Architecture
  readonly manifest: Descriptor
  readonly layers: readonly Descriptor[]
  /** Digests of the layers before compression. */
  readonly diffIds: readonly string[]
}

export interface WrittenLayout {
  /** The digest that a registry has for all architectures together. */
  readonly index: Descriptor
  readonly images: readonly WrittenImage[]
}

/** Of 1 to 9: 9 takes twice the time and saves half a percent. */
const LEVEL = 6

const TYPE = {
  index: 'application/vnd.oci.image.index.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
} as const

/** @param folder is replaced @param tag names the index in the layout */
export async function writeLayout(
  folder: string,
  images: readonly AssembledImage[],
  facts: ImageFacts,
  tag: string,
): Promise<WrittenLayout> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(join(folder, 'blobs/sha256'), { recursive: true })
  const written: WrittenImage[] = []
  for (const image of images) written.push(await writeImage(folder, image, facts))
  const manifests = written.map(({ arch, manifest }) => ({
    ...manifest,
    platform: { architecture: DEBIAN_NAME[arch], os: 'linux' },
  }))
  const index = writeJson(
    folder,
    { schemaVersion: 2, mediaType: TYPE.index, manifests, annotations: labelsOf(facts) },
    'index',
  )
  const named = { ...index, annotations: { 'org.opencontainers.image.ref.name': tag } }
  writeFileSync(
    join(folder, 'index.json'),
    JSON.stringify({ schemaVersion: 2, mediaType: TYPE.index, manifests: [named] }),
  )
  writeFileSync(join(folder, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }))
  return { index, images: written }
}

async function writeImage(
  folder: string,
  { arch, folder: assembled }: AssembledImage,
  facts: ImageFacts,
): Promise<WrittenImage> {
  const labels = labelsOf(facts)
  const layers: Descriptor[] = []
  const diffIds: string[] = []
  for (const layer of LAYERS) {
    const { descriptor, diffId } = await writeLayer(folder, join(assembled, layer))
    layers.push(descriptor)
    diffIds.push(diffId)
  }
  const config = writeJson(
    folder,
    {
      created: facts.created,
      architecture: DEBIAN_NAME[arch],
      os: 'linux',
      config: { ...RUN_CONFIGURATION, Labels: labels },
      rootfs: { type: 'layers', diff_ids: diffIds },
      history: LAYERS.map((layer) => ({ created: facts.created, created_by: `dev/image/assemble.ts ${layer}` })),
    },
    'config',
  )
  const manifest = writeJson(
    folder,
    { schemaVersion: 2, mediaType: TYPE.manifest, config, layers, annotations: labels },
    'manifest',
  )
  return { arch, manifest, layers, diffIds }
}

async function writeLayer(
  folder: string,
  layer: string,
): Promise<{ readonly descriptor: Descriptor; readonly diffId: string }> {
  const partial = join(folder, 'layer.partial')
  const plain = createHash('sha256')
  const hashed = function* (): Generator<Buffer> {
    for (const piece of tarOf(layer)) {
      plain.update(piece)
      yield piece
    }
  }
  await pipeline(Readable.from(hashed()), createGzip({ level: LEVEL }), createWriteStream(partial))
  const compressed = createHash('sha256')
  let size = 0
  for await (const piece of createReadStream(partial)) {
    compressed.update(piece as Buffer) // a stream without an encoding
    size += (piece as Buffer).length
  }
  const hex = compressed.digest('hex')
  renameSync(partial, join(folder, 'blobs/sha256', hex))
  return {
    descriptor: { mediaType: TYPE.layer, digest: `sha256:${hex}`, size },
    diffId: `sha256:${plain.digest('hex')}`,
  }
}

function writeJson(folder: string, value: object, kind: keyof typeof TYPE): Descriptor {
  const bytes = Buffer.from(JSON.stringify(value))
  const hex = createHash('sha256').update(bytes).digest('hex')
  writeFileSync(join(folder, 'blobs/sha256', hex), bytes)
  return { mediaType: TYPE[kind], digest: `sha256:${hex}`, size: bytes.length }
}
