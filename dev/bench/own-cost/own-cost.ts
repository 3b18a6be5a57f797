/**
 * `npm run bench -- --own-cost`: what a cold start in ipvs mode costs this program itself. The bundle and the API server are real; the
 * kernel is replaced (memory-kernel.ts) and the programs of iptables do nothing. This file starts itself again in new namespaces with
 * its task as JSON; there it starts the API server, and the program as often as is asked for.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { bundle } from '../../bundle.ts'
import { type Choices, CHOICES } from '../../api-server/generate.ts'
import { BEFORE_OTHERS } from '../../kernel/guest.ts'
import { runOnHost } from '../../kernel/host.ts'
import { NODE_FLAGS } from '../../node-flags.ts'
import { endWithParent } from '../../parent.ts'
import { ApiServerProcess } from '../api-server-process.ts'
import { commandOf, NODE_NAME, writeConfiguration } from '../guest-node.ts'
import { DISTURBANCES, type Fairness } from '../fairness.ts'
import { mayGoFirst } from '../machine.ts'
import { clear, measuredFiles, measureFairness } from '../measure-fairness.ts'
import { MeasuredProgram } from '../measured-program.ts'
import { percentile } from '../statistics.ts'
import { formatFairness } from '../fairness-report.ts'
import { placeKoffi } from '../writes/place-koffi.ts'
import type { Mark, OwnCost } from './memory-kernel.ts'
import { type Growth, measureGrowth } from './growth.ts'

const ROOT = join(import.meta.dirname, '../../..')
const ENDPOINTS = 5
const START_MS = 300_000
const POLL_MS = 50
const MEMORY_KERNEL = join(import.meta.dirname, 'memory-kernel.ts')
/** After a burst began all of it is written, and after the last change its drains have ended. */
const BURST_MS = 1_500
const SETTLE_MS = 3_500

/** One of the programs that take turns. */
interface Subject {
  readonly name: string
  readonly entry: string
  readonly nodeFlags: readonly string[]
  /** What the Services that it serves choose by annotations. */
  readonly choices: Choices
}

interface Task {
  readonly subjects: readonly Subject[]
  readonly services: number
  readonly repeats: number
  readonly virtualAddresses: string
  readonly folder: string
  readonly profile?: string
  /** After each start changes are timed beside other work. */
  readonly withProbe: boolean
  /** After each start so many changes are made; 0: none. */
  readonly slopeChanges: number
}

/** What one start has cost; `children` is the processor time of the processes that it started, in milliseconds. */
interface Start {
  readonly subject: string
  readonly own: OwnCost
  readonly childrenMs: number
  readonly fairness?: readonly Fairness[]
  readonly growth?: Growth
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      'own-cost': { type: 'boolean' },
      services: { type: 'string', default: '10000' },
      repeats: { type: 'string' },
      'virtual-addresses': { type: 'string', default: 'routes' },
      'node-flags': { type: 'string', default: NODE_FLAGS.join(' ') },
      against: { type: 'string' },
      'against-flags': { type: 'string' },
      'against-choices': { type: 'string' },
      profile: { type: 'string' },
      'burst-with-probe': { type: 'boolean', default: false },
      'slope-changes': { type: 'string' },
      output: { type: 'string', short: 'o', default: 'text' },
    },
  })
  const isUnderLoad = values['burst-with-probe'] || values['slope-changes'] !== undefined
  const abort = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => abort.abort())
  endWithParent(abort)
  const flags = values['node-flags'].split(' ').filter((flag) => flag !== '')
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-own-cost-'))
  mkdirSync(join(ROOT, '.cache'), { recursive: true })
  const bundled = mkdtempSync(join(ROOT, '.cache/own-cost-'))
  try {
    const { entry } = await bundle({ directory: join(bundled, 'this'), minify: values.profile === undefined })
    await placeKoffi(dirname(entry), MEMORY_KERNEL)
    const subjects: Subject[] = [{ name: 'this', entry, nodeFlags: flags, choices: 'none' }]
    if (values.against !== undefined || values['against-flags'] !== undefined) {
      const other = values.against === undefined ? entry : await otherBundle(values.against, join(bundled, 'other'))
      const nodeFlags = values['against-flags']?.split(' ').filter((flag) => flag !== '') ?? flags
      subjects.push({ name: 'other', entry: other, nodeFlags, choices: 'none' })
    }
    if (values['against-choices'] !== undefined)
      subjects.push({ name: 'choosing', entry, nodeFlags: flags, choices: choicesIn(values['against-choices']) })
    writePrograms(join(folder, 'bin'))
    const task: Task = {
      subjects,
      services: whole('services', values.services, 200_000),
      repeats: whole('repeats', values.repeats ?? (isUnderLoad ? '1' : '5'), 100),
      virtualAddresses: values['virtual-addresses'],
      folder,
      withProbe: values['burst-with-probe'],
      slopeChanges:
        values['slope-changes'] === undefined ? 0 : whole('slope-changes', values['slope-changes'], 1_000_000),
      ...(values.profile === undefined ? {} : { profile: resolve(values.profile) }),
    }
    const starts = await inOwnNamespaces(task, abort.signal)
    if (values.output === 'json')
      return void process.stdout.write(
        `${JSON.stringify({ services: task.services, virtualAddresses: task.virtualAddresses, starts })}\n`,
      )
    for (const { name } of subjects)
      process.stdout.write(
        `${reportOf(
          name,
          task,
          starts.filter(({ subject }) => subject === name),
        )}\n`,
      )
  } finally {
    for (const path of [folder, bundled]) rmSync(path, { recursive: true, force: true })
  }
}

/** A copy of another bundle (`node dev/bundle.ts` in another checkout). */
async function otherBundle(entry: string, directory: string): Promise<string> {
  cpSync(dirname(resolve(entry)), directory, {
    recursive: true,
    filter: (path) => !path.endsWith('/node_modules'),
  })
  await placeKoffi(directory, MEMORY_KERNEL)
  return join(directory, basename(entry))
}

/** All programs of iptables, as links to one file, as packages have them: it reads its input and prints nothing. */
function writePrograms(directory: string): void {
  mkdirSync(directory)
  const file = join(directory, 'xtables-nft-multi')
  writeFileSync(file, '#!/bin/sh\ncase $0 in *-restore) exec cat >/dev/null ;; esac\n', { mode: 0o755 })
  for (const stem of ['iptables', 'ip6tables'])
    for (const name of [stem, `${stem}-save`, `${stem}-restore`, `${stem}-nft-save`, `${stem}-nft-restore`])
      symlinkSync(file, join(directory, name))
}

async function inOwnNamespaces(task: Task, signal: AbortSignal): Promise<Start[]> {
  let text = ''
  const code = await runOnHost({
    command: [process.execPath, import.meta.filename, JSON.stringify(task)],
    cwd: ROOT,
    env: { ...process.env, PATH: `${join(task.folder, 'bin')}:${process.env['PATH'] ?? ''}` },
    timeoutMs: task.repeats * task.subjects.length * START_MS + START_MS,
    signal,
    stdout: (chunk) => {
      text += chunk.toString()
    },
    stderr: (chunk) => process.stderr.write(chunk),
  })
  signal.throwIfAborted()
  if (code !== 0) throw new Error(`the measurement ended with code ${code}; it needs root's rights for new namespaces`)
  return JSON.parse(text) as Start[] // written by measure
}

async function measure(task: Task): Promise<void> {
  const { services, repeats, folder, virtualAddresses, subjects } = task
  const servers = new Map<Choices, ApiServerProcess>()
  for (const { choices } of subjects)
    if (!servers.has(choices))
      servers.set(choices, await ApiServerProcess.start(services, ENDPOINTS, NODE_NAME, choices))
  try {
    const starts: Start[] = []
    for (let repeat = 0; repeat < repeats; repeat++)
      for (const subject of subjects) {
        const api = servers.get(subject.choices)
        if (api === undefined) continue
        const start = await startOnce(task, subject, api)
        process.stderr.write(`  ${subject.name}: ${start.own.lastWrite.cpuMs.toFixed(0)} ms\n`)
        starts.push(start)
      }
    process.stdout.write(JSON.stringify(starts))
  } finally {
    for (const api of servers.values()) await api.stop()
  }

  async function startOnce(
    { profile, withProbe, slopeChanges }: Task,
    { name, entry, nodeFlags }: Subject,
    api: ApiServerProcess,
  ): Promise<Start> {
    const file = join(folder, 'cost')
    rmSync(file, { force: true })
    const files = measuredFiles(folder)
    clear(files)
    const isLoaded = withProbe || slopeChanges > 0
    const paths = writeConfiguration(folder, 'ipvs', api.url, {
      kubeIPVS: { virtualAddresses },
      // This kernel lists nothing, so an audit would repair everything.
      ...(isLoaded ? { ipvs: { syncPeriod: '24h' } } : {}),
    })
    const ours = {
      program: 'kube-ipvs',
      command: entry,
      nodeFlags,
      ...(profile && { profile: join(profile, name) }),
    } as const
    const program = new MeasuredProgram({
      command: [
        ...(isLoaded && mayGoFirst() ? BEFORE_OTHERS : []),
        'env',
        `KUBE_IPVS_OWN_COST=${file}`,
        ...commandOf(ours, paths),
      ],
      logFile: join(folder, 'log'),
      ...(withProbe ? files : {}),
    })
    try {
      for (const endMs = Date.now() + START_MS; !existsSync(file); await sleep(POLL_MS))
        if (!program.isAlive || Date.now() > endMs) throw new Error(`no result:\n${program.logTail}`)
      await sleep(POLL_MS)
      const own = JSON.parse(readFileSync(file, 'utf8')) as OwnCost // written by memory-kernel.ts
      const childrenMs = program.cost().cpuMs - own.settled.cpuMs
      const say = (text: string): void => void process.stderr.write(`  ${name}: ${text}\n`)
      const fairness = withProbe
        ? await measureFairness(
            {
              services,
              api,
              // There are no audits, because this kernel lists nothing.
              disturbances: DISTURBANCES.filter((one) => one !== 'audit'),
              times: { namespace: 6, burst: 4 },
              settleMs: SETTLE_MS,
              burstMs: BURST_MS,
              say,
            },
            program,
          )
        : undefined
      const growth = slopeChanges > 0 ? await measureGrowth({ api, program }, slopeChanges, say) : undefined
      return { subject: name, own, childrenMs, ...(fairness && { fairness }), ...(growth && { growth }) }
    } finally {
      await program.stop()
    }
  }
}

function choicesIn(text: string): Choices {
  const choices = CHOICES.find((one) => one === text)
  if (choices === undefined) throw new Error(`--against-choices is one of ${CHOICES.join(', ')}, not "${text}"`)
  return choices
}

function whole(name: string, text: string, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : 0
  if (value < 1 || value > max) throw new Error(`--${name} is a whole number from 1 to ${max}, not "${text}"`)
  return value
}

const median = (values: readonly number[]): number => percentile(values, 0.5) ?? 0

function reportOf(name: string, { services, virtualAddresses }: Task, starts: readonly Start[]): string {
  const of = (value: (start: Start) => number): number => median(starts.map(value))
  const marks = ['firstContact', 'firstWrite', 'lastWrite', 'settled'] as const
  const titles = ['start of Node and program', 'lists, frontends', 'plan and write', 'collections afterwards']
  const none: Mark = { cpuMs: 0, systemMs: 0, minorFaults: 0 }
  const phases = marks.map((mark, index) => {
    const part = (field: keyof Mark): string =>
      of(({ own }) => {
        const previous = marks[index - 1]
        return own[mark][field] - (previous === undefined ? none : own[previous])[field]
      }).toFixed(0)
    const [cpu, system, faults] = [part('cpuMs'), part('systemMs'), part('minorFaults')]
    const title = (titles[index] ?? '').padEnd(28)
    return `  ${title}${cpu.padStart(7)} ms, of which system ${system.padStart(5)} ms; ${faults.padStart(7)} page faults`
  })
  const { counts } = starts[0]?.own ?? {}
  const totals = starts.map(({ own }) => own.lastWrite.cpuMs)
  return [
    `${name}: ${services} Services x ${ENDPOINTS}, ${virtualAddresses}: ${median(totals).toFixed(0)} ms of own processor time until the last message (${Math.min(...totals).toFixed(0)} to ${Math.max(...totals).toFixed(0)}, ${starts.length} starts)`,
    ...phases,
    `  collections ${of(({ own }) => own.collections)} in ${of(({ own }) => own.collectionMs).toFixed(0)} ms of real time; RSS ${of(({ own }) => own.rssMiB).toFixed(0)} MiB, peak ${of(({ own }) => own.peakRssMiB).toFixed(0)} MiB`,
    ...starts.flatMap(({ fairness = [], growth }) => [
      ...formatFairness(fairness).map((line) => `  ${line}`),
      ...(growth === undefined
        ? []
        : [`  memory from ${growth.from} to ${growth.changes} changes: ${growth.growthMiB?.toFixed(2) ?? '-'} MiB`]),
    ]),
    `  ${counts?.messages} messages in ${counts?.datagrams} datagrams, ${((counts?.bytes ?? 0) / 1024).toFixed(0)} KiB: ${counts?.destinations} destinations, ${counts?.routes} routes, ${counts?.addresses} addresses, ${counts?.entries} entries of sets`,
  ].join('\n')
}

const inner = process.argv[2] ?? ''
try {
  // A task is written by inOwnNamespaces.
  await (inner.startsWith('{') ? measure(JSON.parse(inner) as Task) : main())
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
process.exit(0)
