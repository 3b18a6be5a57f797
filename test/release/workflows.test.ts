/**
 * The workflows of the repository: everything by digest, and the right to sign only where nothing
 * of the repository runs.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { parse } from 'yaml'
import { readPackageList } from '../../dev/image/debian-packages.ts'
import { projectFolder } from '../../dev/progress.mjs'

interface Step {
  readonly uses?: string
  readonly run?: string
  readonly with?: Readonly<Record<string, unknown>>
}
interface Job {
  readonly needs?: string
  readonly permissions?: Readonly<Record<string, string>>
  readonly container?: { readonly image: string; readonly options?: string }
  readonly steps: readonly Step[]
}
interface Workflow {
  readonly permissions: Readonly<Record<string, string>>
  readonly jobs: Readonly<Record<string, Job>>
}

const { snapshot } = readPackageList()

for (const name of ['tests', 'release', 'nightly']) {
  const text = readFileSync(join(projectFolder, `.github/workflows/${name}.yml`), 'utf8')
  const { permissions, jobs } = parse(text) as Workflow // the form of GitHub's workflows
  const steps = Object.values(jobs).flatMap((job) => job.steps)
  const rightsOf = (job: Job): Readonly<Record<string, string>> => job.permissions ?? permissions

  describe(`the workflow ${name}`, () => {
    it('names actions by commit, with the version in a comment', () => {
      const used = steps.flatMap(({ uses }) => uses ?? [])
      assert.ok(used.length > 0)
      for (const action of used) assert.match(action, /^actions\/[\w-]+@[0-9a-f]{40}$/)
      assert.equal([...text.matchAll(/uses: \S+ # v\d+\.\d+\.\d+$/gm)].length, used.length)
    })

    it('names images by digest, and takes Debian packages from the snapshot of the image', () => {
      for (const { container, steps: all } of Object.values(jobs)) {
        if (container === undefined) continue
        assert.match(container.image, /^debian:13@sha256:[0-9a-f]{64}$/)
        const [first] = all
        assert.ok(first?.run?.includes(`http://snapshot.debian.org/archive/debian/${snapshot} trixie main`), snapshot)
        assert.match(first?.run ?? '', /^rm \/etc\/apt\/sources\.list\.d\/\*$/m)
      }
    })

    it('has jobs that may sign or that are privileged, and none that is both', () => {
      for (const [job, of] of Object.entries(jobs)) {
        const writes = Object.entries(rightsOf(of)).filter(([, right]) => right !== 'read')
        const isPrivileged = of.container?.options !== undefined
        assert.ok(!isPrivileged || writes.length === 0, job)
        if (writes.length === 0) continue
        // It runs nothing of the repository, and nothing of a container.
        assert.equal(of.container, undefined, job)
        assert.ok(!of.steps.some(({ uses }) => uses?.startsWith('actions/checkout@') === true), job)
        for (const { run = '' } of of.steps) assert.doesNotMatch(run, /npm|node|bash /, job)
      }
    })

    it('leaves no token in the checkout', () => {
      for (const { uses, with: options } of steps)
        if (uses?.startsWith('actions/checkout@') === true) assert.equal(options?.['persist-credentials'], false)
    })
  })
}

describe('the workflow nightly', () => {
  it('compares the firewalls with 10,000 packets of another seed each night', () => {
    const text = readFileSync(join(projectFolder, '.github/workflows/nightly.yml'), 'utf8')
    const { on, jobs } = parse(text) as Workflow & { readonly on: { readonly schedule: readonly { cron: string }[] } }
    assert.match(on.schedule[0]?.cron ?? '', /^\d+ \d+ \* \* \*$/)
    const [, packets] =
      /^npm run test:packets -- --packets (\d+) --new-seed$/m.exec(text.replaceAll('- run: ', '\n')) ?? []
    assert.ok(Number(packets) >= 10_000, packets)
    assert.deepEqual(Object.keys(jobs), ['packets'])
  })
})

describe('the workflow release', () => {
  it('builds after the tests, and signs what was built', () => {
    const { jobs } = parse(readFileSync(join(projectFolder, '.github/workflows/release.yml'), 'utf8')) as Workflow
    const { tests, build, attest } = jobs
    assert.deepEqual([build?.needs, attest?.needs], ['tests', 'build'])
    assert.ok(tests?.steps.some(({ run }) => run === 'bash .ci/run'))
    assert.ok(build?.steps.some(({ run }) => run?.startsWith('npm run release -- --tests-passed ')))
    assert.ok(build?.steps.some(({ run }) => /^npm audit --omit=dev .*\n^npm audit signatures /m.test(run ?? '')))
    assert.deepEqual(attest?.permissions, { 'id-token': 'write', attestations: 'write' })
  })
})
