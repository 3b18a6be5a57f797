/** The images of a release: each variant for all architectures as one OCI archive, and an SBOM for each architecture. */
import { copyFileSync, createWriteStream, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { assemble } from '../image/assemble.ts'
import {
  type Architecture,
  DEBIAN_NAME,
  type ImageFacts,
  SBOM_PATH,
  type Variant,
  VARIANTS,
} from '../image/contents.ts'
import { plainMode, tarOf } from '../image/layer.ts'
import { writeLayout } from '../image/oci-layout.ts'
import type { Component } from '../image/sbom.ts'
import { say } from '../progress.mjs'

export interface ReleasedImage {
  /** `v0.1.0`, `v0.1.0-without-iptables` */
  readonly tag: string
  /** The archive, in the folder of the release. */
  readonly file: string
  /** Of its index: `sha256:…` */
  readonly digest: string
  readonly components: readonly Component[]
}

export interface ImagesOptions {
  readonly into: string
  readonly architectures: readonly Architecture[]
  readonly epochSeconds: number
  readonly facts: ImageFacts
}

/** Writes the archives and SBOMs of every variant. */
export async function writeImages(options: ImagesOptions): Promise<readonly ReleasedImage[]> {
  const images: ReleasedImage[] = []
  for (const variant of VARIANTS) images.push(await writeImage(variant, options))
  return images
}

async function writeImage(
  variant: Variant,
  { into, architectures, epochSeconds, facts }: ImagesOptions,
): Promise<ReleasedImage> {
  const suffix = variant === 'full' ? '' : `-${variant}`
  const name = `kube-ipvs-${facts.version}${suffix}`
  const tag = `v${facts.version}${suffix}`
  const file = `${name}.oci.tar`
  const components: Component[] = []
  const work = mkdtempSync(join(tmpdir(), 'kube-ipvs-release-'))
  try {
    const assembled: { arch: Architecture; folder: string }[] = []
    for (const arch of architectures) {
      const folder = join(work, arch)
      components.push(...(await assemble({ arch, into: folder, env: process.env, epochSeconds, variant })))
      copyFileSync(join(folder, 'program', SBOM_PATH), join(into, `${name}-linux-${DEBIAN_NAME[arch]}.spdx.json`))
      assembled.push({ arch, folder })
    }
    say(`Writing the image ${tag} ...`)
    const layout = join(work, 'oci')
    const { index } = await writeLayout(layout, assembled, facts, tag)
    await pipeline(Readable.from(tarOf(layout, plainMode)), createWriteStream(join(into, file)))
    return { tag, file, digest: index.digest, components }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}
