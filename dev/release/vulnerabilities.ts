/**
 * The review of known vulnerabilities, docs/evidence/vulnerabilities.yaml: whether it still fits
 * what is pinned and what the program contains, and the OpenVEX document of a release.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { projectFolder } from '../progress.mjs'

export const REVIEW_PATH = 'docs/evidence/vulnerabilities.yaml'
/** A release needs a review that is at most so old. */
export const MAX_REVIEW_DAYS = 14
const DAY_MS = 86_400_000

const CVE = z.string().regex(/^CVE-\d{4}-\d{4,}$/)
const VERSION = z.string().regex(/^\d+\.\d+\.\d+$/)
const TEXT = z.string().regex(/\S.*[.)]$/s, 'is no sentence')

const STATEMENT = { id: CVE, title: z.string(), fixedIn: VERSION, why: TEXT, absent: z.array(z.string()).optional() }
const OPEN = z.discriminatedUnion('status', [
  z.strictObject({
    ...STATEMENT,
    status: z.literal('not_affected'),
    // The values of OpenVEX.
    justification: z.enum([
      'component_not_present',
      'vulnerable_code_not_present',
      'vulnerable_code_not_in_execute_path',
      'vulnerable_code_cannot_be_controlled_by_adversary',
      'inline_mitigations_already_exist',
    ]),
  }),
  z.strictObject({ ...STATEMENT, status: z.literal('affected'), action: TEXT }),
  z.strictObject({ ...STATEMENT, status: z.literal('under_investigation') }),
])

const REVIEW = z.strictObject({
  reviewed: z.iso.date(),
  node: VERSION,
  packages: z.array(z.string()),
  notCovered: z.array(TEXT),
  sources: z.array(z.url()),
  fixed: z.record(VERSION, z.array(CVE)),
  open: z.array(OPEN),
})
export type Review = z.infer<typeof REVIEW>

/** Throws when the text has another form. */
export function parseReview(text: string): Review {
  return REVIEW.parse(parse(text))
}

export const readReview = (): Review => parseReview(readFileSync(join(projectFolder, REVIEW_PATH), 'utf8'))

/** What a build contains. */
export interface Built {
  /** Version of the pinned Node. */
  readonly node: string
  /** `name@version` of each npm package with code in the bundles, and of koffi with its binaries. */
  readonly packages: readonly string[]
  /** Text of each bundle. */
  readonly bundles: Readonly<Record<string, string>>
}

/** What is no longer true in a review, one sentence each. */
export function reviewProblems(review: Review, { node, packages, bundles }: Built): readonly string[] {
  const reviewed = new Set(review.packages)
  const present = new Set(packages)
  const ids = [...Object.values(review.fixed).flat(), ...review.open.map(({ id }) => id)]
  return [
    ...(review.node === node ? [] : [`Node ${node} is pinned, and ${review.node} was reviewed`]),
    ...packages.filter((one) => !reviewed.has(one)).map((one) => `${one} was not reviewed`),
    ...review.packages.filter((one) => !present.has(one)).map((one) => `${one} was reviewed and is not in the program`),
    ...ids.filter((id, index) => ids.indexOf(id) < index).map((id) => `${id} has two statements`),
    ...Object.keys(review.fixed)
      .filter((version) => isNewer(version, node))
      .map((version) => `${version} is newer than the pinned Node, so what it corrects is open`),
    ...review.open.flatMap(({ id, fixedIn, absent = [] }) => [
      ...(isNewer(fixedIn, node) ? [] : [`${id} is corrected in the pinned Node, so it is fixed`]),
      ...absent.flatMap((pattern) =>
        Object.entries(bundles)
          .filter(([, text]) => new RegExp(pattern).test(text))
          .map(([name]) => `${id}: ${name} contains ${pattern}, which the review says is absent`),
      ),
    ]),
  ]
}

/** Why a review is too old for a release; undefined when it is not. */
export function ageProblem({ reviewed }: Review, nowMs: number): string | undefined {
  const days = Math.floor((nowMs - Date.parse(reviewed)) / DAY_MS)
  return days <= MAX_REVIEW_DAYS ? undefined : `${REVIEW_PATH} was reviewed ${days} days ago, on ${reviewed}`
}

function isNewer(version: string, than: string): boolean {
  const [a, b] = [version, than].map((text) => text.split('.').map(Number)) as [number[], number[]] // as many as given
  const index = a.findIndex((part, at) => part !== b[at])
  return index >= 0 && (a[index] ?? 0) > (b[index] ?? 0)
}

/** The review as OpenVEX 0.2.0. @param timestamp ISO 8601, of the release */
export function openVex(review: Review, version: string, timestamp: string): object {
  const node = `pkg:generic/node@${review.node}`
  const products = [{ '@id': `pkg:generic/kube-ipvs@${version}`, subcomponents: [{ '@id': node }] }]
  const fixed = Object.entries(review.fixed).flatMap(([release, ids]) =>
    ids.map((id) => ({
      vulnerability: { name: id },
      products,
      status: 'fixed',
      status_notes: `Corrected in Node ${release}.`,
    })),
  )
  const open = review.open.map((one) => ({
    vulnerability: { name: one.id, description: one.title },
    products,
    status: one.status,
    ...('justification' in one ? { justification: one.justification, impact_statement: one.why } : {}),
    ...('action' in one ? { action_statement: one.action } : {}),
    ...('justification' in one ? {} : { status_notes: one.why }),
  }))
  const statements = [...open, ...fixed]
  const identity = createHash('sha256')
    .update(JSON.stringify([version, timestamp, statements]))
    .digest('hex')
  return {
    '@context': 'https://openvex.dev/ns/v0.2.0',
    '@id': `https://openvex.dev/docs/public/vex-${identity}`,
    author: 'the maintainers of kube-ipvs',
    timestamp,
    version: 1,
    statements,
  }
}
