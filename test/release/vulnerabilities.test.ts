/** The review of vulnerabilities: it fits what is pinned and built, and a check of each kind finds what does not. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { builtFrom } from '../../dev/evidence/supply-chain/built.ts'
import {
  ageProblem,
  type Built,
  openVex,
  parseReview,
  readReview,
  REVIEW_PATH,
  reviewProblems,
} from '../../dev/release/vulnerabilities.ts'
import { projectFolder } from '../../dev/progress.mjs'

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-review-'))
after(() => rmSync(folder, { recursive: true }))

const review = readReview()
const example = parseReview(`
reviewed: 2026-11-26
node: 24.21.0
packages: [a@1.0.0]
notCovered: []
sources: []
fixed: { 24.18.1: [CVE-2026-58044] }
open:
  - id: CVE-2026-111497
    title: Brotli
    fixedIn: 24.22.1
    status: not_affected
    justification: vulnerable_code_not_in_execute_path
    why: Nothing uses it.
    absent: ['[Bb]rotli']
  - id: CVE-2026-123866
    title: memory
    fixedIn: 24.22.3
    status: affected
    action: Switch it off.
    why: It is used.
`)
const built: Built = { node: '24.21.0', packages: ['a@1.0.0'], bundles: { daemon: 'gzip' } }

describe('the review of vulnerabilities', () => {
  it('fits the pinned Node, the packages and the code of the bundles', async () => {
    assert.deepEqual(reviewProblems(review, await builtFrom(folder)), [])
  })

  it('has no problem while nothing changes', () => {
    assert.deepEqual(reviewProblems(example, built), [])
  })

  it('is out of date after another Node, with what is fixed by it', () => {
    assert.deepEqual(reviewProblems(example, { ...built, node: '24.22.2' }), [
      'Node 24.22.2 is pinned, and 24.21.0 was reviewed',
      'CVE-2026-111497 is corrected in the pinned Node, so it is fixed',
    ])
    assert.deepEqual(reviewProblems(example, { ...built, node: '24.9.0' }), [
      'Node 24.9.0 is pinned, and 24.21.0 was reviewed',
      '24.18.1 is newer than the pinned Node, so what it corrects is open',
    ])
  })

  it('is out of date after another package, and after one that is gone', () => {
    assert.deepEqual(reviewProblems(example, { ...built, packages: ['a@1.0.1'] }), [
      'a@1.0.1 was not reviewed',
      'a@1.0.0 was reviewed and is not in the program',
    ])
  })

  it('is wrong when the program contains what it says is absent', () => {
    assert.deepEqual(reviewProblems(example, { ...built, bundles: { main: '', tools: 'zlib.brotliDecompress(x)' } }), [
      'CVE-2026-111497: tools contains [Bb]rotli, which the review says is absent',
    ])
  })

  it('has one statement for each vulnerability', () => {
    const twice = { ...example, fixed: { '24.18.1': ['CVE-2026-111497'] } }
    assert.deepEqual(reviewProblems(twice, built), ['CVE-2026-111497 has two statements'])
  })

  it('is too old for a release after two weeks', () => {
    assert.equal(ageProblem(example, Date.parse('2026-12-10T23:00:00Z')), undefined)
    assert.match(ageProblem(example, Date.parse('2026-12-11')) ?? '', /reviewed 15 days ago, on 2026-11-26/)
  })

  it('needs a reason for what is not affected, and an action for what is', () => {
    const text = readFileSync(join(projectFolder, REVIEW_PATH), 'utf8')
    for (const field of ['justification', 'action', 'why'])
      assert.throws(() => parseReview(text.replace(new RegExp(`^    ${field}:`, 'm'), '    # $&')), field)
  })
})

describe('the OpenVEX document', () => {
  const vex = openVex(review, '1.2.3', '2026-11-26T00:00:00Z') as {
    readonly '@context': string
    readonly '@id': string
    readonly timestamp: string
    readonly version: number
    readonly author: string
    readonly statements: readonly {
      readonly vulnerability: { readonly name: string }
      readonly products: readonly { readonly '@id': string }[]
      readonly status: string
      readonly justification?: string
      readonly action_statement?: string
    }[]
  }

  it('has a statement for each vulnerability of the review', () => {
    const ids = [...review.open.map(({ id }) => id), ...Object.values(review.fixed).flat()]
    assert.deepEqual(
      vex.statements.map(({ vulnerability }) => vulnerability.name),
      ids,
    )
    assert.ok(ids.length > 50)
  })

  it('has what OpenVEX requires', () => {
    assert.equal(vex['@context'], 'https://openvex.dev/ns/v0.2.0')
    for (const field of ['@id', 'author', 'timestamp', 'version'] as const) assert.ok(vex[field], field)
    for (const { status, justification, action_statement: action, products } of vex.statements) {
      assert.equal(products[0]?.['@id'], 'pkg:generic/kube-ipvs@1.2.3')
      assert.equal(justification !== undefined, status === 'not_affected')
      assert.equal(action !== undefined, status === 'affected')
    }
  })

  it('is the same for the same release', () => {
    assert.deepEqual(openVex(review, '1.2.3', '2026-11-26T00:00:00Z'), vex)
  })
})
