/**
 * The supply chain: the review of vulnerabilities, what npm says of the packages, the licences, and
 * two builds of the same commit. Each part tells what it could not ask.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { assemble, releaseTime } from '../image/assemble.ts'
import { ARCHITECTURES, architectureOf } from '../image/contents.ts'
import { finish, projectFolder } from '../progress.mjs'
import type { Part, PartResult } from './part.ts'
import { ageProblem, readReview, reviewProblems } from '../release/vulnerabilities.ts'
import { builtFrom } from './supply-chain/built.ts'
import { debianLicences, npmLicences } from './supply-chain/licences.ts'
import { npmAnswer } from './supply-chain/npm-answer.ts'
import { reproduce } from './supply-chain/reproducible.ts'

export const supplyChain: Part = {
  name: 'supply-chain',
  purpose: 'vulnerabilities, signatures and licences of what the image contains; two builds of one commit',
  run: measure,
}

async function measure(): Promise<PartResult> {
  const review = readReview()
  const work = mkdtempSync(join(tmpdir(), 'kube-ipvs-supply-'))
  try {
    const built = await builtFrom(join(work, 'bundles'))
    const image = join(work, 'image')
    const epochSeconds = await releaseTime(process.env)
    await assemble({ arch: architectureOf(process.arch), into: image, env: process.env, epochSeconds })
    const licences = [npmLicences(built.npm), debianLicences(join(image, 'base'))]
    const age = ageProblem(review, Date.now())
    const audit = npmAnswer(await npm('audit', '--omit=dev', '--json'))
    const signatures = npmAnswer(await npm('audit', 'signatures', '--json'))
    const reproduction = await reproduce(ARCHITECTURES)
    const statuses = Map.groupBy(review.open, ({ status }) => status)
    return {
      problems: [
        ...reviewProblems(review, built),
        ...(age === undefined ? [] : [age]),
        ...[audit, signatures].flatMap(({ problems }) => problems),
        ...licences.flatMap(({ problems }) => problems),
        ...reproduction.differences.map((name) => `${name} differs between two builds`),
      ],
      vulnerabilities: {
        reviewed: review.reviewed,
        node: review.node,
        fixed: Object.values(review.fixed).flat().length,
        open: Object.fromEntries([...statuses].map(([status, of]) => [status, of.map(({ id }) => id)])),
        notCovered: review.notCovered,
      },
      npmAudit: audit,
      npmSignatures: signatures,
      licences: licences.flatMap(({ all }) => all),
      reproduction,
    }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** Not the npm beside the Node in node_modules: there is none. .npmrc makes npm silent. */
const npm = (...args: string[]): Promise<{ code: number; output: string }> =>
  finish('npm', [...args, '--loglevel=error'], { cwd: projectFolder, timeoutMs: 180_000 })
