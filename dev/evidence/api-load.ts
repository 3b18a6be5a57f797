/**
 * What daemons cost the API server: 500 sets of our reflectors; fewer of them with 250,000
 * endpoints; and as many kube-proxies beside as many sets. Measured at the server of the tests, and
 * at a kube-apiserver. KUBE_PROXY, KUBE_APISERVER and ETCD name programs; others are built.
 */
import { accessSync, constants, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type Plan, type Run, resultOf } from './api-load/plan.ts'
import { KUBE_PROXY_RELEASE } from '../../src/values/well-known.ts'
import { finish, say, stopPrograms, tail, Unmet } from '../progress.mjs'
import { type GoProgram, goProgram } from './go-program.ts'
import type { Part, PartOptions, PartResult } from './part.ts'

const MAIN = join(import.meta.dirname, 'api-load/main.ts')
/** Ten minutes at rest, and ten minutes of outage. */
const HOURS = 1 / 3
const OBJECTS = { services: 20, endpointsEach: 100, steps: 4, compactionSeconds: 5 } as const
const NODES = 500
const LARGE = { nodes: 2, ...OBJECTS, services: 2500, steadySeconds: 0, outageSeconds: 0 } as const
/** Of those that kube-apiserver 1.37 works with. */
const ETCD_RELEASE = '3.7.3'
/** Of both programs: a kube-proxy is a process of 100 MB. */
const COMPARED_NODES = 20

export const apiLoad: Part = {
  name: 'api-load',
  purpose: 'what many nodes ask of the API server: at rest, in a rolling update, at a start, after an outage',
  run: measure,
}

async function measure({ hours = HOURS, signal }: PartOptions): Promise<PartResult> {
  signal.addEventListener('abort', stopPrograms, { once: true })
  const seconds = Math.round(hours * 1800)
  const times = { steadySeconds: seconds, outageSeconds: seconds }
  const release = KUBE_PROXY_RELEASE.version.slice(1)
  const proxy = await programOf('KUBE_PROXY', 'kube-proxy', release)
  const apiserver = await programOf('KUBE_APISERVER', 'kube-apiserver', release)
  const etcd = await programOf('ETCD', 'etcd', ETCD_RELEASE)
  const runs: Run[] = []
  const measureAt = async (server: Pick<Plan, 'server'>): Promise<void> => {
    runs.push(await run({ program: 'kube-ipvs', nodes: NODES, ...OBJECTS, ...times, ...server }))
    runs.push(await run({ program: 'kube-ipvs', ...LARGE, ...server }))
    if (proxy.path === undefined) return
    const each = { nodes: COMPARED_NODES, ...OBJECTS, ...times, ...server }
    const both = [{ program: 'kube-ipvs' }, { program: 'kube-proxy', path: proxy.path }] as const
    runs.push(...(await Promise.all(both.map((program) => run({ ...program, ...each })))))
  }
  await measureAt({})
  if (apiserver.path !== undefined && etcd.path !== undefined)
    await measureAt({ server: { kubeApiserver: apiserver.path, etcd: etcd.path } })
  return resultOf(
    runs,
    [proxy, apiserver, etcd].flatMap(({ reason }) => reason ?? []),
  )
}

type Program =
  | { readonly path: string; readonly reason?: undefined }
  | { readonly path?: undefined; readonly reason: string }

/** The program that a variable names, or one that is built; or why it does not run. */
async function programOf(variable: string, name: GoProgram, release: string): Promise<Program> {
  // Each run uses unshare(1).
  if (process.getuid?.() !== 0) return { reason: `${name} is not run: it needs root, for network namespaces` }
  const named = process.env[variable] || undefined
  if (named === undefined)
    try {
      return { path: await goProgram(name, release, process.env) }
    } catch (error) {
      if (!(error instanceof Unmet)) throw error
      return { reason: `${variable} names no program, and ${name} ${release} is not to be had: ${error.message}` }
    }
  const path = resolve(named)
  try {
    accessSync(path, constants.X_OK)
    return { path }
  } catch {
    return { reason: `${variable} names ${path}, which is not there or not executable` }
  }
}

/** All its processes end with it: in a namespace of processes, or by their channel to it. */
const NAMESPACES = ['--net', '--pid', '--fork', '--kill-child=SIGKILL', '--mount-proc', 'sh', '-c']

async function run(plan: Plan): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-api-load-'))
  say(`${plan.nodes} nodes with ${plan.program}, ${plan.services} Services of ${plan.endpointsEach} endpoints ...`)
  const node = [process.execPath, '--max-old-space-size=8192', MAIN, JSON.stringify(plan), folder]
  const command =
    plan.program === 'kube-ipvs' && plan.server === undefined
      ? node
      : ['unshare', ...NAMESPACES, 'ip link set lo up && exec "$@"', 'sh', ...node]
  try {
    const timeoutMs = 7_200_000 + (plan.steadySeconds + plan.outageSeconds) * 1000
    const { code, output } = await finish(command[0] ?? '', command.slice(1), { timeoutMs, killSignal: 'SIGKILL' })
    say(output)
    if (code !== 0) throw new Error(`the run with ${plan.program} ended with code ${code}: ${tail(output)}`)
    return JSON.parse(readFileSync(join(folder, 'run.json'), 'utf8')) as Run // written by main.ts
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
