/**
 * `npm run release`: checks that this commit may be released, runs what must pass, and writes images,
 * chart, SBOMs, OpenVEX, provenance and checksums into a folder. It pushes nothing; its last lines
 * say what to push where.
 */
import { createHash } from 'node:crypto'
import {
  createReadStream,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import { createGzip } from 'node:zlib'
import { parse } from 'yaml'
import { VERSION } from '../src/values/well-known.ts'
import { findHelm } from './helm/program.ts'
import { releaseTime } from './image/assemble.ts'
import { type Architecture, ARCHITECTURES, architectureOf } from './image/contents.ts'
import { plainMode, tarOf } from './image/layer.ts'
import { type Comparison, compareWithPublished } from './image/node-binary.ts'
import { ownFolder } from './own-folder.ts'
import { Unmet, finish, projectFolder, say, tail } from './progress.mjs'
import { type ReleasedImage, writeImages } from './release/images.ts'
import { provenance, type Subject } from './release/provenance.ts'
import { readReleaseTexts, versionProblems } from './release/versions.ts'
import { ageProblem, openVex, readReview } from './release/vulnerabilities.ts'

/** Files that a release is made of. */
const RELEASED =
  /^(?:kube-ipvs-[\w.+-]+\.(?:spdx\.json|openvex\.json|oci\.tar|tgz|provenance\.json)|SHA256SUMS(?:\.minisig)?)$/
/** Everything of CI. */
const TESTS_MS = 5_400_000

interface ReleaseOptions {
  readonly into: string
  readonly architectures: readonly Architecture[]
  /** Builds everything from any state of the checkout, without tests and without comparing Node with nodejs.org. */
  readonly isDryRun: boolean
  /** Another job has run .ci/run on this commit. */
  readonly isTested: boolean
  readonly source: string | undefined
}

async function release(options: ReleaseOptions): Promise<void> {
  const { into, isDryRun, architectures, source } = options
  const startedAt = new Date()
  const revision = (await must('git', ['rev-parse', 'HEAD'])).trim()
  const problems = await problemsOfCheckout()
  // Before the tests, which take an hour.
  ownFolder(into, (name) => RELEASED.test(name))
  if (!isDryRun) await mayBeReleased(problems, options.isTested)
  const epochSeconds = await releaseTime(process.env)
  const facts = {
    version: VERSION,
    created: new Date(epochSeconds * 1000).toISOString().replace('.000Z', 'Z'),
    revision,
    source,
  }
  const comparisons: Partial<Record<Architecture, Comparison>> = {}
  if (!isDryRun) for (const arch of architectures) comparisons[arch] = await comparedNode(arch)
  const images = await writeImages({ into, architectures, epochSeconds, facts })
  const components = new Map(images.flatMap((image) => image.components).map((one) => [one.purl, one]))
  const vex = openVex(readReview(), VERSION, facts.created)
  writeFileSync(join(into, `kube-ipvs-${VERSION}.openvex.json`), `${JSON.stringify(vex, undefined, 2)}\n`)
  const chart = await packageChart(into)
  const subjects = await subjectsOf(into)
  const inRegistry = images.map(({ digest }) => ({ name: repository(), sha256: digest.replace('sha256:', '') }))
  const statement = provenance({
    version: VERSION,
    subjects: [...subjects, ...inRegistry],
    revision,
    source,
    components: [...components.values()],
    comparisons,
    isDryRun,
    startedAt,
    finishedAt: new Date(),
    builder: builderOf(process.env),
  })
  writeFileSync(join(into, `kube-ipvs-${VERSION}.provenance.json`), `${JSON.stringify(statement, undefined, 2)}\n`)
  const sums = (await subjectsOf(into)).map(({ name, sha256 }) => `${sha256}  ${name}\n`)
  writeFileSync(join(into, 'SHA256SUMS'), sums.join(''))
  process.stdout.write(nextSteps(options, images, chart, problems))
}

/** What keeps this checkout from being released, one sentence each. */
async function problemsOfCheckout(): Promise<readonly string[]> {
  const changed = (await must('git', ['status', '--porcelain'])).trim()
  const old = ageProblem(readReview(), Date.now())
  return [
    ...versionProblems(VERSION, readReleaseTexts()),
    ...(old === undefined ? [] : [old]),
    ...(changed === '' ? [] : ['the checkout has changes that are not committed']),
    ...(findHelm(process.env) === undefined ? ['there is no helm to package the chart: npm run helm builds it'] : []),
  ]
}

async function mayBeReleased(problems: readonly string[], isTested: boolean): Promise<void> {
  if (problems.length > 0) throw new Unmet(`this checkout cannot be released:\n  ${problems.join('\n  ')}`)
  if (isTested) return
  say('Running .ci/run ...')
  const { code, output } = await finish('bash', ['.ci/run'], { cwd: projectFolder, timeoutMs: TESTS_MS })
  if (code !== 0) throw new Unmet(`.ci/run failed, so there is no release:\n${tail(output, 40)}`)
}

async function comparedNode(arch: Architecture): Promise<Comparison> {
  say(`Comparing Node for ${arch} with what nodejs.org publishes ...`)
  const comparison = await compareWithPublished(arch)
  if (comparison.result === 'unreachable')
    throw new Unmet(`Node could not be compared with what its project publishes: ${comparison.reason}`)
  return comparison
}

/** Name of the packaged chart; undefined without helm, which a dry run may lack. */
async function packageChart(into: string): Promise<string | undefined> {
  const helm = findHelm(process.env)
  if (helm === undefined) return undefined
  await must(helm, ['lint', 'helm', '--set', 'apiServer.host=192.0.2.1'])
  const work = mkdtempSync(join(tmpdir(), 'kube-ipvs-chart-'))
  try {
    await must(helm, ['package', 'helm', '--destination', work])
    const chart = `kube-ipvs-${VERSION}.tgz`
    // helm writes the time of the build into its archive; ours has none, and the same files.
    const files = join(work, 'files')
    mkdirSync(files)
    await must('tar', ['-xzf', join(work, chart), '-C', files])
    await pipeline(
      Readable.from(tarOf(files, plainMode)),
      createGzip({ level: 9 }),
      createWriteStream(join(into, chart)),
    )
    return chart
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** Every file in a folder with its digest, sorted. */
async function subjectsOf(folder: string): Promise<readonly Subject[]> {
  const subjects: Subject[] = []
  for (const name of readdirSync(folder).toSorted()) {
    const hash = createHash('sha256')
    for await (const piece of createReadStream(join(folder, name))) hash.update(piece as Buffer) // a stream without an encoding
    subjects.push({ name, sha256: hash.digest('hex') })
  }
  return subjects
}

/** The repository of the image, which the chart names. */
function repository(): string {
  const values = parse(readFileSync(join(projectFolder, 'helm/values.yaml'), 'utf8')) as {
    readonly image: { readonly repository: string }
  } // the schema of the chart
  return values.image.repository
}

function nextSteps(
  { into, isDryRun }: ReleaseOptions,
  images: readonly ReleasedImage[],
  chart: string | undefined,
  problems: readonly string[],
): string {
  const to = repository()
  const head = [
    `Release ${VERSION} is in ${into}. Nothing was pushed.`,
    ...images.map(({ tag, digest }) => `Image ${to}:${tag}@${digest}`),
  ]
  const dry = [
    'This was a dry run: no tests ran, Node was not compared with nodejs.org, and nothing of it may be pushed.',
    ...problems.map((problem) => `A release would be refused: ${problem}`),
  ]
  const publish = [
    'To sign it, on the machine that has the key:',
    `  minisign -S -s KEY -m ${into}/SHA256SUMS -t "kube-ipvs ${VERSION}"`,
    `  node dev/release/verify.mjs ${into} --key KEY.pub`,
    'To publish it:',
    ...images.map(
      ({ tag, file }) => `  skopeo copy --all oci-archive:${join(into, file)}:${tag} docker://${to}:${tag}`,
    ),
    `  helm push ${join(into, chart ?? '')} oci://${to.replace(/\/[^/]+$/, '')}/charts`,
    `  git tag -s v${VERSION} && git push origin v${VERSION}`,
    `  gh release create v${VERSION} ${into}/*`,
  ]
  return `${[...head, ...(isDryRun ? dry : publish)].join('\n')}\n`
}

/** The run of a hosted workflow, or this machine. */
function builderOf(env: NodeJS.ProcessEnv): string {
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: name, GITHUB_RUN_ID: run } = env
  return server === undefined || name === undefined || run === undefined
    ? 'https://kube-ipvs.invalid/local-machine'
    : `${server}/${name}/actions/runs/${run}`
}

async function must(program: string, args: string[]): Promise<string> {
  const { code, output } = await finish(program, args, { cwd: projectFolder })
  if (code !== 0) throw new Unmet(`${program} ${args.join(' ')} failed: ${tail(output, 10)}`)
  return output
}

function optionsOf(args: readonly string[], env: NodeJS.ProcessEnv): ReleaseOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      into: { type: 'string', default: join(projectFolder, 'dist/release') },
      arch: { type: 'string', multiple: true, default: [...ARCHITECTURES] },
      'dry-run': { type: 'boolean', default: false },
      'tests-passed': { type: 'boolean', default: false },
      source: { type: 'string' },
    },
  })
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: name } = env
  const hosted = server === undefined || name === undefined ? undefined : `${server}/${name}`
  return {
    into: values.into,
    architectures: values.arch.map(architectureOf),
    isDryRun: values['dry-run'],
    isTested: values['tests-passed'],
    source: values.source ?? hosted,
  }
}

try {
  await release(optionsOf(process.argv.slice(2), process.env))
} catch (error) {
  if (!(error instanceof Unmet)) throw error
  say(error.message)
  process.exitCode = 1
}
