/** What the bundles of the program contain, for the review of vulnerabilities and the list of licences. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bundle, BUNDLE_NAMES, koffiBinary } from '../../bundle.ts'
import { ARCHITECTURES } from '../../image/contents.ts'
import { readPinnedNode } from '../../image/node-binary.ts'
import { projectFolder } from '../../progress.mjs'
import type { Built } from '../../release/vulnerabilities.ts'

/** A package of package-lock.json. */
export interface LockedPackage {
  readonly name: string
  readonly version: string
  /** An SPDX expression. */
  readonly license?: string
  readonly dev?: boolean
}

export interface BuiltProgram extends Built {
  readonly npm: readonly LockedPackage[]
}

/** By the path in node_modules. */
export function lockedPackages(): ReadonlyMap<string, LockedPackage> {
  const { packages } = JSON.parse(readFileSync(join(projectFolder, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, Omit<LockedPackage, 'name'>>>
  } // npm's format
  return new Map(
    Object.entries(packages).map(([path, one]) => [path, { ...one, name: path.replace(/.*node_modules\//, '') }]),
  )
}

/** Builds the bundles into a folder, which is replaced. */
export async function builtFrom(directory: string): Promise<BuiltProgram> {
  // Of no architecture, so that nothing makes a code cache.
  const { packages } = await bundle({ directory, arch: 'none' })
  const locked = lockedPackages()
  const binaries = ARCHITECTURES.map((arch) => `node_modules/${koffiBinary(arch)}`)
  const npm = [...packages, 'node_modules/koffi', ...binaries].map((path) => {
    const found = locked.get(path)
    if (found === undefined) throw new Error(`package-lock.json has no ${path}`)
    return found
  })
  return {
    node: readPinnedNode().version,
    npm,
    packages: npm.map(({ name, version }) => `${name}@${version}`).toSorted(),
    bundles: Object.fromEntries(
      BUNDLE_NAMES.map((name) => [name, readFileSync(join(directory, `${name}.js`), 'utf8')]),
    ),
  }
}
