/**
 * Runs one recorded case from its first step to its last on a clean node, and compares after each.
 * A state counts only when it has not changed for a while, longer where only an audit would change
 * it: a step whose recorded state is that of the step before would otherwise pass before the
 * program has seen it.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiServer } from '../../dev/api-server/server.ts'
import { asObject, type Json } from '../../dev/api-server/store.ts'
import { deadline } from '../support/deadline.ts'
import { differenceOf, judge, type Verdict } from '../support/deviations.ts'
import { Wait } from '../support/waiting.ts'
import { type CaseFile, readCase, Recording, type Step } from './case-file.ts'
import type { StateDeviation } from './deviations.ts'
import { baseConfiguration, merge, ServedObjects } from './feeding.ts'
import type { Ground, Mode, State, StateFile } from './files.ts'
import { makeNode } from './node.ts'
import { Program } from './program.ts'
import type { CaseFailure, CaseResult } from './result.ts'
import { comparable, takeState } from './state.ts'

/** The limit until the program has opened all its watches. */
const START_MS = 40_000
/** How long a state must not change: after a change of objects, and where an audit may still repair something. */
const QUIET_MS = 600
const AUDIT_QUIET_MS = 2_500
/**
 * How long a state may take, on a fast kernel that others use, too: removal of a node address waits
 * 10 s, and a repair backs off.
 */
const OBJECTS_MS = 20_000
const DRIFT_MS = 30_000
const POLL_MS = 150

export interface CaseTask {
  readonly name: string
  readonly mode: Mode
  readonly ground: Ground
}

export interface CaseSetting {
  readonly cases: string
  /** The folder of the base case when `cases` has none. */
  readonly defaultCases: string
  /** The bundle. */
  readonly entry: string
  readonly deviations: readonly StateDeviation[]
  readonly compared: readonly StateFile[]
  /** Our state is written here, as recorded/MODE/N/FILE under the case's name. */
  readonly output?: string
}

export async function runCase(task: CaseTask, setting: CaseSetting): Promise<CaseResult> {
  const startedMs = performance.now()
  const { name, mode } = task
  const definition = readCase(setting.cases, name)
  const failures: CaseFailure[] = []
  const deviations: number[] = []
  let log: readonly string[] = []
  try {
    await makeNode(task.ground, definition.interfaces ?? [])
    const run = await CaseRun.open(task, definition, setting)
    try {
      for (const [index, step] of definition.steps.entries()) {
        const { failed, deviated } = await run.step(index + 1, step)
        failures.push(...failed)
        deviations.push(...deviated)
      }
    } finally {
      log = run.program.logTail
      await run.close()
    }
  } catch (error) {
    failures.push({ where: 'the run', text: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  }
  const durationMs = performance.now() - startedMs
  return { name, mode, steps: definition.steps.length, durationMs, deviations, failures, log }
}

interface StepResult {
  readonly failed: readonly CaseFailure[]
  readonly deviated: readonly number[]
}

class CaseRun {
  readonly program: Program
  readonly #task: CaseTask
  readonly #setting: CaseSetting
  readonly #recording: Recording
  readonly #api: ApiServer
  readonly #objects: ServedObjects
  readonly #folder: string
  readonly #healthPorts: readonly number[]
  readonly #compared: readonly StateFile[]
  #configuration: Json

  static async open(task: CaseTask, definition: CaseFile, setting: CaseSetting): Promise<CaseRun> {
    const api = new ApiServer()
    await api.listen()
    return new CaseRun(task, definition, setting, api)
  }

  private constructor(task: CaseTask, definition: CaseFile, setting: CaseSetting, api: ApiServer) {
    this.#task = task
    this.#setting = setting
    this.#api = api
    this.#objects = new ServedObjects(api.store)
    this.#recording = new Recording(setting.cases, setting.defaultCases, task.name, task.mode)
    this.#folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-oracle-'))
    this.#healthPorts = healthPortsOf(definition)
    // Other cases have no recording of flows.
    this.#compared = setting.compared.filter((file) => file !== 'conntrack.txt' || definition.conntrack === true)
    const kubeconfig = join(this.#folder, 'kubeconfig')
    writeFileSync(kubeconfig, JSON.stringify(kubeconfigFor(api.url)))
    this.#configuration = merge(baseConfiguration(task.mode, kubeconfig), definition.config)
    this.program = new Program(setting.entry, this.#configFile, join(this.#folder, 'log'))
    this.#writeConfiguration()
  }

  get #configFile(): string {
    return join(this.#folder, 'config.yaml')
  }

  /** JSON is YAML. */
  #writeConfiguration(): void {
    writeFileSync(this.#configFile, JSON.stringify(this.#configuration))
  }

  /** Executes the step in the recorder's order, waits, and compares. `number` counts from 1. */
  async step(number: number, step: Step): Promise<StepResult> {
    const { program } = this
    program.beginStep()
    if (step.stop === true) await program.stop()
    if (step.config !== undefined) {
      this.#configuration = merge(this.#configuration, step.config)
      this.#writeConfiguration()
    }
    if (step.cleanup === true) await program.cleanup()
    const notes = step.exec === undefined ? '' : await shell(step.exec)
    this.#objects.become(this.#recording.lists(number), step)
    if (step.start ?? number === 1) {
      program.start()
      await program.untilReady(() => this.#api.watchCount >= 3, deadline(START_MS))
    }
    if (step.wait !== undefined) await sleep(step.wait * 1000)
    const wanted = this.#wanted(number)
    const left = await this.#settled(number, wanted, isDrift(number, step))
    this.#write(number, left)
    return this.#compare(number, wanted, left, notes)
  }

  async close(): Promise<void> {
    await this.program.stop('SIGKILL')
    this.#api.resetConnections()
    await this.#api.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #judge(step: number, file: StateFile, wanted: State, left: State): Verdict<StateDeviation> {
    const { name } = this.#task
    const { deviations } = this.#setting
    const deviation = deviations.find((one) => one.case === name && one.file === file && one.steps.includes(step))
    return judge(differenceOf(wanted[file] ?? '', left[file] ?? ''), deviation)
  }

  #wanted(number: number): State {
    return comparable(this.#recording.state(number), this.#task.ground === 'kernel')
  }

  async #take(): Promise<State> {
    const state = await takeState(this.#compared, this.#healthPorts)
    const process = this.#compared.includes('process.txt') ? { 'process.txt': this.program.facts } : {}
    return comparable({ ...state, ...process }, this.#task.ground === 'kernel')
  }

  #accepts(step: number, wanted: State, left: State): boolean {
    return this.#compared.every((file) => this.#judge(step, file, wanted, left).kind !== 'differs')
  }

  /** The state when it is as wanted and does not change, or the current state after the time limit. */
  async #settled(step: number, wanted: State, drift: boolean): Promise<State> {
    const running = this.program.isRunning
    const quietMs = !running ? POLL_MS : drift ? AUDIT_QUIET_MS : QUIET_MS
    const limitMs = !running ? 0 : deadline(drift ? DRIFT_MS : OBJECTS_MS)
    const lateMs = performance.now() + limitMs
    const wait = new Wait()
    for (let now = await wait.look(() => this.#take()); ; ) {
      const late = performance.now() >= lateMs
      const candidate = late || this.#accepts(step, wanted, now)
      await sleep(candidate ? quietMs : POLL_MS)
      const next = await (candidate ? wait.lookAgain(() => this.#take()) : wait.look(() => this.#take()))
      const holds = this.#compared.every((file) => next[file] === now[file])
      if (candidate && (holds || performance.now() >= lateMs + limitMs)) return next
      now = next
    }
  }

  #compare(number: number, wanted: State, left: State, notes: string): StepResult {
    const failed: CaseFailure[] = []
    const deviated: number[] = []
    for (const file of this.#compared) {
      const verdict = this.#judge(number, file, wanted, left)
      if (verdict.kind === 'deviates') deviated.push(verdict.deviation.number)
      if (verdict.kind === 'differs') failed.push({ where: `step ${number} ${file}`, text: verdict.text })
    }
    if (failed.length > 0 && notes !== '')
      failed.push({ where: `step ${number}: its shell commands printed`, text: notes })
    const { facts } = this.program
    if (failed.length > 0 && facts !== '') failed.push({ where: `step ${number}: the program`, text: facts })
    return { failed, deviated }
  }

  #write(number: number, left: State): void {
    const { output } = this.#setting
    if (output === undefined) return
    const folder = join(output, this.#task.name, 'recorded', this.#task.mode, String(number))
    mkdirSync(folder, { recursive: true })
    for (const [file, text] of Object.entries(left)) writeFileSync(join(folder, file), text)
  }
}

/** Only an audit can find what such a step did. */
const isDrift = (number: number, step: Step): boolean =>
  number > 1 && step.exec !== undefined && step.apply === undefined

function healthPortsOf({ steps }: CaseFile): number[] {
  const specs = steps.flatMap(({ apply }) => (apply ?? []).map((object) => asObject(object['spec'])))
  const ports = specs.flatMap((spec) =>
    typeof spec['healthCheckNodePort'] === 'number' ? [spec['healthCheckNodePort']] : [],
  )
  return [...new Set(ports)].sort((a, b) => a - b)
}

function kubeconfigFor(server: string): Json {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'oracle', cluster: { server } }],
    users: [{ name: 'oracle', user: {} }],
    contexts: [{ name: 'oracle', context: { cluster: 'oracle', user: 'oracle' } }],
    'current-context': 'oracle',
  }
}

/** Runs a step's shell commands to the end; they may fail. Returns their stderr. */
function shell(commands: string): Promise<string> {
  return new Promise((resolve) => {
    execFile('sh', ['-c', commands], { timeout: 60_000 }, (_, __, stderr) => resolve(stderr.trim()))
  })
}
