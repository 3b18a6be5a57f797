/**
 * The list of what the image contains, as SPDX 2.3 in JSON: the program, the npm packages in it,
 * Node, and the Debian packages, each with version, licence, digest of what was fetched, and
 * package URL.
 */
import { createHash } from 'node:crypto'
import type { Architecture } from './contents.ts'

/** One part of the image. */
export interface Component {
  readonly kind: 'program' | 'npm' | 'runtime' | 'debian'
  readonly name: string
  readonly version: string
  /** An SPDX expression, or NOASSERTION where a copyright file in the image has the details. */
  readonly license: string
  /** Package URL. */
  readonly purl: string
  /** Of the file that was fetched; absent for the program itself. */
  readonly digest?: { readonly algorithm: 'SHA256' | 'SHA512'; readonly hex: string }
  /** Debian's source package, where its name or version differ. */
  readonly source?: string
}

/** @param created ISO 8601, seconds in UTC */
export function sbom(arch: Architecture, components: readonly Component[], created: string): object {
  const [program] = components.filter(({ kind }) => kind === 'program')
  if (program === undefined) throw new Error('the list of components lacks the program')
  const name = `kube-ipvs-${program.version}-linux-${arch}`
  const identity = createHash('sha256')
    .update(JSON.stringify([name, created, components]))
    .digest('hex')
  return {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name,
    documentNamespace: `https://spdx.org/spdxdocs/${name}-${identity.slice(0, 32)}`,
    creationInfo: { created, creators: ['Tool: kube-ipvs-dev-image'] },
    packages: components.map(spdxPackage),
    relationships: [
      relationship('SPDXRef-DOCUMENT', 'DESCRIBES', idOf(program)),
      ...components
        .filter((component) => component !== program)
        .map((component) => relationship(idOf(program), 'CONTAINS', idOf(component))),
    ],
  }
}

function spdxPackage(component: Component): object {
  const { name, version, license, purl, digest, source } = component
  return {
    SPDXID: idOf(component),
    name,
    versionInfo: version,
    downloadLocation: 'NOASSERTION',
    filesAnalyzed: false,
    licenseConcluded: 'NOASSERTION',
    licenseDeclared: license,
    copyrightText: 'NOASSERTION',
    ...(digest === undefined ? {} : { checksums: [{ algorithm: digest.algorithm, checksumValue: digest.hex }] }),
    ...(source === undefined ? {} : { sourceInfo: `built from Debian's source package ${source}` }),
    externalRefs: [{ referenceCategory: 'PACKAGE-MANAGER', referenceType: 'purl', referenceLocator: purl }],
  }
}

const relationship = (spdxElementId: string, relationshipType: string, relatedSpdxElement: string): object => ({
  spdxElementId,
  relationshipType,
  relatedSpdxElement,
})

/** SPDX allows letters, digits, `.` and `-`. */
const idOf = ({ kind, name, version }: Component): string =>
  `SPDXRef-${kind}-${`${name}-${version}`.replaceAll(/[^A-Za-z0-9.-]/g, '-')}`
