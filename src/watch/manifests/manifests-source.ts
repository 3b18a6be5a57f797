/**
 * A folder of manifests as a source of objects, for `npm start` and for nodes without an API
 * server. A file that is being written may be empty or missing for a moment, so a change counts
 * only when a second reading confirms it. A folder that cannot be read, or that is replaced by an
 * empty one (a file system was unmounted), does not count as one whose files were removed.
 * @impure
 */
import { type FSWatcher, watch } from 'node:fs'
import { OBJECT_KINDS, type ObjectChange } from '../../service/objects.ts'
import { errorText, type Problem } from '../../values/errors.ts'
import type { Log } from '../../values/log.ts'
import { createIntern } from '../objects/findings.ts'
import { type ManifestObject, type ManifestFile, parseManifestFile } from './manifest-file.ts'
import { type FileState, type FolderState, readFolder } from './manifest-folder.ts'
import { problemOfUnread, type UnreadEndpoints } from './unread-endpoints.ts'
import { removal } from '../objects/object-parser.ts'
import type { ObjectSink, Source } from '../source.ts'

export interface ManifestsSourceOptions {
  readonly directory: string
  /** Name of the Node this proxy runs on, lower case. Other Nodes in manifests are ignored. */
  readonly nodeName: string
  readonly sink: ObjectSink
  readonly log: Log
  /** Time between two readings without a notification, in milliseconds; default 500. */
  readonly pollMs?: number
  /** How long a change must remain the same before it counts, in milliseconds; default 50. */
  readonly settleMs?: number
  /** Called after each reading of the folder; tests wait for it. */
  readonly onRead?: () => void
}

/** Starts to read and follow a folder. Never fails: a folder that cannot be read is reported as a problem. */
export function openManifestsSource(options: ManifestsSourceOptions): Source {
  const source = new ManifestsSource(options)
  source.start()
  return source
}

/** The objects of a file that are in force, and the problems of its present content. */
interface FileInForce {
  readonly hash: string
  readonly objects: readonly ManifestObject[]
  readonly problems: readonly Problem[]
  /** Of the same content as the objects. */
  readonly unread: readonly UnreadEndpoints[]
  /** The objects are those of a content without problems. */
  readonly isGood: boolean
}

/** Time between a notification and the reading, in milliseconds. */
const NOTIFIED_MS = 10

class ManifestsSource implements Source {
  readonly #options: ManifestsSourceOptions
  readonly #intern = createIntern()
  readonly #files = new Map<string, FileInForce>()
  /** Changed files that need a second reading. */
  readonly #unsettled = new Map<string, { readonly hash: string; readonly text: string; readonly sinceMs: number }>()
  /** The objects that the sink has, by `kind key`. */
  #delivered = new Map<string, ManifestObject>()
  /** The problems that the sink has, as JSON, by subject. */
  readonly #reported = new Map<string, string>()
  #lastRead: ReadonlyMap<string, FileState> = new Map()
  /** Identity of the folder when it last held a file. */
  #identity = ''
  /** Deliver even without a changed file, because the last delivery failed. */
  #mustDeliver = false
  #listed = false
  #closed = false
  #isNotified = false
  #timer: NodeJS.Timeout | undefined
  #reading: Promise<void> | undefined
  #watcher: FSWatcher | undefined

  constructor(options: ManifestsSourceOptions) {
    this.#options = options
  }

  get #settleMs(): number {
    return this.#options.settleMs ?? 50
  }

  start(): void {
    this.#schedule(0)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#watcher?.close()
    await this.#reading
  }

  #schedule(delayMs: number): void {
    if (this.#closed) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#isNotified = false
      this.#reading = this.#readSafely().finally(() => {
        this.#reading = undefined
        const { pollMs = 500, onRead } = this.#options
        onRead?.()
        this.#schedule(this.#isNotified ? NOTIFIED_MS : this.#unsettled.size > 0 ? this.#settleMs : pollMs)
      })
    }, delayMs)
  }

  /** An unexpected failure is reported and changes nothing until the next reading. */
  async #readSafely(): Promise<void> {
    const { directory, log } = this.#options
    try {
      await this.#read()
    } catch (error) {
      log.error('Reading the manifests failed; their last content stays in force', { directory, error })
      const message = error instanceof Error ? error.message : 'a value was thrown that is not an Error'
      this.#report(directory, [{ code: 'manifests-failed', about: 'node', subject: directory, message }])
    }
  }

  async #read(): Promise<void> {
    const { directory } = this.#options
    this.#follow()
    let folder: FolderState
    try {
      folder = await readFolder(directory, this.#lastRead)
    } catch (error) {
      const message = errorText(error)
      this.#report(directory, [{ code: 'unreadable-folder', about: 'node', subject: directory, message }])
      return
    }
    if (this.#closed) return
    const { identity, files } = folder
    if (files.size === 0 && this.#files.size > 0 && identity !== this.#identity) {
      const message =
        'the path leads to another folder, which is empty: the content of the former one stays in force until a file appears'
      this.#report(directory, [{ code: 'empty-folder', about: 'node', subject: directory, message }])
      return
    }
    if (files.size > 0) this.#identity = identity
    this.#lastRead = withoutText(files)
    const changed = [...new Set([...this.#files.keys(), ...files.keys()])].filter((name) =>
      this.#isSettled(name, files),
    )
    for (const name of changed) await this.#accept(name, files.get(name))
    if (changed.length > 0 || !this.#listed || this.#mustDeliver) {
      this.#mustDeliver = true
      this.#deliver()
      this.#mustDeliver = false
    }
    this.#report(directory, [])
    if (this.#listed) return
    for (const kind of OBJECT_KINDS) this.#options.sink.listed(kind)
    this.#listed = true
  }

  /** Whether a file differs from the one in force in the same way as at an earlier reading. */
  #isSettled(name: string, files: ReadonlyMap<string, FileState>): boolean {
    const state = files.get(name)
    const hash = state?.hash ?? ''
    const earlier = this.#unsettled.get(name)
    if (hash === (this.#files.get(name)?.hash ?? '')) {
      this.#unsettled.delete(name)
      return false
    }
    if (earlier?.hash === hash) return performance.now() - earlier.sinceMs >= this.#settleMs
    this.#unsettled.set(name, { hash, text: state?.text ?? '', sinceMs: performance.now() })
    // Before the first list a change counts at once, because nothing is in force that could be lost.
    return !this.#listed
  }

  async #accept(name: string, state: FileState | undefined): Promise<void> {
    const text = this.#unsettled.get(name)?.text ?? ''
    const before = this.#files.get(name)
    const { log, nodeName } = this.#options
    if (state === undefined) {
      this.#unsettled.delete(name)
      this.#files.delete(name)
      log.info('Manifest removed', { file: name })
      return
    }
    const parsed: ManifestFile =
      state.error === ''
        ? await parseManifestFile(name, text, nodeName, this.#intern)
        : {
            objects: [],
            unread: [],
            problems: [{ code: 'unreadable-file', about: 'object', subject: name, message: state.error }],
          }
    // Only after parsing: if that throws, the next reading needs the text again, and the folder does not read it twice.
    this.#unsettled.delete(name)
    const isGood = parsed.problems.length === 0
    const keepsBefore = !isGood && before?.isGood === true
    const { objects, unread } = keepsBefore ? before : parsed
    this.#files.set(name, {
      hash: state.hash,
      objects,
      unread,
      problems: parsed.problems,
      isGood: isGood || keepsBefore,
    })
    const fields = { file: name, objects: objects.length, problems: parsed.problems.length }
    if (isGood) log.info('Manifest read', fields)
    else log.warn(keepsBefore ? 'Manifest has problems; its last good version stays' : 'Manifest has problems', fields)
  }

  /** Gives the sink the difference between the files and the objects that it has. */
  #deliver(): void {
    const wanted = new Map<string, ManifestObject>()
    const owners = new Map<string, string>()
    const found: [name: string, unread: readonly UnreadEndpoints[], problems: Problem[]][] = []
    for (const [name, file] of [...this.#files].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      const problems = [...file.problems]
      found.push([name, file.unread, problems])
      for (const object of file.objects) {
        const { kind, key } = object.change
        const identity = `${kind} ${key}`
        const owner = owners.get(identity)
        if (owner === undefined) {
          owners.set(identity, name)
          wanted.set(identity, object)
        } else {
          const message = `${identity} is already in ${owner}, which is used`
          problems.push({ code: 'duplicate-object', about: 'object', subject: `${name}:${object.line}`, message })
        }
      }
    }
    const hasOnly = withoutSlices(wanted.values())
    for (const [name, unread, problems] of found) {
      const problem = problemOfUnread(name, unread, hasOnly)
      this.#report(name, problem === undefined ? problems : [...problems, problem])
    }
    for (const name of this.#reported.keys())
      if (!this.#files.has(name) && name !== this.#options.directory) this.#report(name, [])
    const changes: ObjectChange[] = []
    for (const [identity, { change }] of this.#delivered)
      if (!wanted.has(identity)) changes.push(removal(change.kind, change.key))
    for (const [identity, object] of wanted)
      if (!isSame(object, this.#delivered.get(identity))) changes.push(object.change)
    if (changes.length > 0 && !this.#closed) this.#options.sink.apply(changes)
    this.#delivered = wanted
  }

  #report(subject: string, problems: readonly Problem[]): void {
    const text = problems.length === 0 ? '' : JSON.stringify(problems)
    if (this.#closed || text === (this.#reported.get(subject) ?? '')) return
    if (problems.length === 0) this.#reported.delete(subject)
    else this.#reported.set(subject, text)
    this.#options.sink.problems(subject, problems)
  }

  /** Watches the folder if that works. It is polled in any case. */
  #follow(): void {
    if (this.#watcher !== undefined) return
    try {
      const watcher = watch(this.#options.directory, { persistent: false }, () => {
        if (this.#isNotified) return
        this.#isNotified = true
        if (this.#reading === undefined) this.#schedule(NOTIFIED_MS)
      })
      watcher.on('error', () => {
        watcher.close()
        this.#watcher = undefined
      })
      this.#watcher = watcher
    } catch {
      // The folder is missing, or the limit of inotify watches is reached: the next reading tries again.
    }
  }
}

/** The states without their texts, which are large and needed once. */
function withoutText(files: ReadonlyMap<string, FileState>): ReadonlyMap<string, FileState> {
  return new Map([...files].map(([name, state]) => [name, { ...state, text: undefined }]))
}

/** Whether a Service is among the objects, and no EndpointSlice of it. */
function withoutSlices(objects: Iterable<ManifestObject>): (service: string) => boolean {
  const services = new Set<string>()
  const sliced = new Set<string>()
  for (const { change } of objects)
    if (change.kind === 'services') services.add(change.key)
    else if (change.kind === 'endpointslices' && change.value !== undefined)
      sliced.add(`${change.value.namespace}/${change.value.serviceName}`)
  return (service) => services.has(service) && !sliced.has(service)
}

function isSame(a: ManifestObject, b: ManifestObject | undefined): boolean {
  return a === b || (b !== undefined && JSON.stringify(a.change) === JSON.stringify(b.change))
}
