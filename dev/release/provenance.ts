/**
 * Where a release is from, as an in-toto statement with the predicate SLSA provenance v1: the
 * artifacts, the commit, what was fetched, and what was compared. It is not signed here; the
 * workflow of the release signs it.
 */
import type { Comparison } from '../image/node-binary.ts'
import type { Architecture } from '../image/contents.ts'
import type { Component } from '../image/sbom.ts'

/** A file of the release, or the image in a registry. */
export interface Subject {
  readonly name: string
  /** SHA-256 in hexadecimal digits. */
  readonly sha256: string
}

export interface ReleaseRecord {
  readonly version: string
  readonly subjects: readonly Subject[]
  /** The commit. */
  readonly revision: string
  /** URL of the repository; undefined where the build does not know it. */
  readonly source: string | undefined
  readonly components: readonly Component[]
  /** Node against what its project publishes; absent where it was not compared. */
  readonly comparisons: Readonly<Partial<Record<Architecture, Comparison>>>
  readonly isDryRun: boolean
  readonly startedAt: Date
  readonly finishedAt: Date
  /** URL of what ran the build, for example of a workflow's run. */
  readonly builder: string
}

export function provenance(record: ReleaseRecord): object {
  const { version, subjects, revision, source, components, comparisons, isDryRun } = record
  const repository = source === undefined ? 'kube-ipvs' : `git+${source}`
  return {
    _type: 'https://in-toto.io/Statement/v1',
    subject: subjects.map(({ name, sha256 }) => ({ name, digest: { sha256 } })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: `${source ?? 'https://kube-ipvs.invalid'}/dev/release.ts@v1`,
        externalParameters: { version, source: repository, revision, isDryRun },
        internalParameters: { nodeComparedWithPublisher: comparisons },
        resolvedDependencies: [
          { uri: `${repository}@${revision}`, digest: { gitCommit: revision } },
          ...components.flatMap(({ purl, digest }) =>
            digest === undefined ? [] : [{ uri: purl, digest: { [digest.algorithm.toLowerCase()]: digest.hex } }],
          ),
        ],
      },
      runDetails: {
        builder: { id: record.builder },
        metadata: { startedOn: record.startedAt.toISOString(), finishedOn: record.finishedAt.toISOString() },
      },
    },
  }
}
