/**
 * A folder of manifests as a source of objects: the embedded default of `npm start`, and the standalone mode.
 * A file that is being written is seen empty or not at all for a moment, so every change is looked at twice before it counts.
 * A folder that cannot be read, or another and empty one behind the same path (a file system that is no longer mounted),
 * must never look like one whose files were removed.
 */
import { type FSWatcher, watch } from 'node:fs'
import type { ObjectChange, ObjectKind } from '../../service/objects.ts'
import { errorText, type Problem } from '../../values/errors.ts'
import type { Log } from '../../values/log.ts'
import { createIntern } from '../objects/findings.ts'
import { type ManifestObject, parseManifestFile } from './manifest-file.ts'
import { type FileState, type FolderState, readFolder } from './manifest-folder.ts'
import { removal } from '../objects/object-parser.ts'
import type { ObjectSink, Source } from '../source.ts'

export interface ManifestsSourceOptions {
  readonly directory: string
  /** Name of the Node this proxy runs on, lower case. Other Nodes in manifests do not count. */
  readonly nodeName: string
  readonly sink: ObjectSink
  readonly log: Log
  /** Time between two looks when nothing announces a change; default 500. */
  readonly pollMs?: number
  /** How long a change has to stay as it is before it counts; default 50. */
  readonly settleMs?: number
  /** Hears of the end of each look at the folder (tests). */
  readonly onLook?: () => void
}

/** Starts reading and following a folder. Never fails: a folder that cannot be read is a problem until it can. */
export function openManifestsSource(options: ManifestsSourceOptions): Source {
  const source = new ManifestsSource(options)
  source.start()
  return source
}

/** A file's objects as they are in force. */
interface FileInForce {
  readonly hash: string
  readonly objects: readonly ManifestObject[]
  readonly problems: readonly Problem[]
  /** The objects are those of a version without problems. */
  readonly good: boolean
}

const KINDS: readonly ObjectKind[] = ['nodes', 'services', 'endpointslices']
/** Between an announced change and the look at it. */
const ANNOUNCED_MS = 10

class ManifestsSource implements Source {
  readonly #options: ManifestsSourceOptions
  readonly #intern = createIntern()
  readonly #files = new Map<string, FileInForce>()
  /** Changed files that wait for the second look. */
  readonly #unsettled = new Map<string, { readonly hash: string; readonly text: string; readonly sinceMs: number }>()
  /** What the sink has, by `kind key`. */
  #delivered = new Map<string, ManifestObject>()
  /** Problems the sink has, as text, by file. */
  readonly #reported = new Map<string, string>()
  #seen: ReadonlyMap<string, FileState> = new Map()
  /** Of the folder when it last held a file. */
  #identity = ''
  /** Something has to be delivered that no changed file asks for: the last delivery failed. */
  #mustDeliver = false
  #listed = false
  #closed = false
  #announced = false
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> | undefined
  #watcher: FSWatcher | undefined

  constructor(options: ManifestsSourceOptions) {
    this.#options = options
  }

  get #settleMs(): number {
    return this.#options.settleMs ?? 50
  }

  start(): void {
    this.#lookIn(0)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#watcher?.close()
    await this.#looking
  }

  #lookIn(delayMs: number): void {
    if (this.#closed) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#announced = false
      this.#looking = this.#lookSafely().finally(() => {
        this.#looking = undefined
        const { pollMs = 500, onLook } = this.#options
        onLook?.()
        this.#lookIn(this.#announced ? ANNOUNCED_MS : this.#unsettled.size > 0 ? this.#settleMs : pollMs)
      })
    }, delayMs)
  }

  /** A look that fails for a reason that nobody thought of is reported and leaves everything as it is until the next one. */
  async #lookSafely(): Promise<void> {
    const { directory, log } = this.#options
    try {
      await this.#look()
    } catch (error) {
      log.error('Looking at the manifests failed; what they said before stays in force', { directory, error })
      const message = error instanceof Error ? error.message : 'something was thrown that is no error'
      this.#report(directory, [{ code: 'manifests-failed', subject: directory, message }])
    }
  }

  async #look(): Promise<void> {
    const { directory } = this.#options
    this.#follow()
    let folder: FolderState
    try {
      folder = await readFolder(directory, this.#seen)
    } catch (error) {
      const message = errorText(error)
      this.#report(directory, [{ code: 'unreadable-folder', subject: directory, message }])
      return
    }
    if (this.#closed) return
    const { identity, files } = folder
    if (files.size === 0 && this.#files.size > 0 && identity !== this.#identity) {
      const message =
        'another folder is there now, and it is empty: what was read before stays in force until a file is there'
      this.#report(directory, [{ code: 'empty-folder', subject: directory, message }])
      return
    }
    if (files.size > 0) this.#identity = identity
    this.#seen = withoutText(files)
    const changed = [...new Set([...this.#files.keys(), ...files.keys()])].filter((name) => this.#settles(name, files))
    for (const name of changed) await this.#accept(name, files.get(name))
    if (changed.length > 0 || !this.#listed || this.#mustDeliver) {
      this.#mustDeliver = true
      this.#deliver()
      this.#mustDeliver = false
    }
    this.#report(directory, [])
    if (this.#listed) return
    for (const kind of KINDS) this.#options.sink.listed(kind)
    this.#listed = true
  }

  /** Whether a file is another one than the one in force, and was so at the look before as well. */
  #settles(name: string, files: ReadonlyMap<string, FileState>): boolean {
    const state = files.get(name)
    const hash = state?.hash ?? ''
    const earlier = this.#unsettled.get(name)
    if (hash === (this.#files.get(name)?.hash ?? '')) {
      this.#unsettled.delete(name)
      return false
    }
    if (earlier?.hash === hash) return performance.now() - earlier.sinceMs >= this.#settleMs
    this.#unsettled.set(name, { hash, text: state?.text ?? '', sinceMs: performance.now() })
    // Nothing is in force yet that could be lost.
    return !this.#listed
  }

  async #accept(name: string, state: FileState | undefined): Promise<void> {
    const text = this.#unsettled.get(name)?.text ?? ''
    const before = this.#files.get(name)
    const { log, nodeName } = this.#options
    if (state === undefined) {
      this.#unsettled.delete(name)
      this.#files.delete(name)
      log.info('Manifest is gone', { file: name })
      return
    }
    const parsed =
      state.error === ''
        ? await parseManifestFile(name, text, nodeName, this.#intern)
        : { objects: [], problems: [{ code: 'unreadable-file', subject: name, message: state.error }] }
    // Not before: the text is read only once.
    this.#unsettled.delete(name)
    const good = parsed.problems.length === 0
    const keep = !good && before?.good === true
    const objects = keep ? before.objects : parsed.objects
    this.#files.set(name, { hash: state.hash, objects, problems: parsed.problems, good: good || keep })
    const fields = { file: name, objects: objects.length, problems: parsed.problems.length }
    if (good) log.info('Manifest read', fields)
    else log.warn(keep ? 'Manifest has problems: its last good version stays' : 'Manifest has problems', fields)
  }

  /** Tells the sink what is different now from what it has. */
  #deliver(): void {
    const wanted = new Map<string, ManifestObject>()
    const owners = new Map<string, string>()
    for (const [name, file] of [...this.#files].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      const problems = [...file.problems]
      for (const object of file.objects) {
        const { kind, key } = object.change
        const identity = `${kind} ${key}`
        const owner = owners.get(identity)
        if (owner === undefined) {
          owners.set(identity, name)
          wanted.set(identity, object)
        } else {
          const message = `${identity} is in ${owner} already, which counts`
          problems.push({ code: 'duplicate-object', subject: `${name}:${object.line}`, message })
        }
      }
      this.#report(name, problems)
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

  /** Watches the folder as long as that works; the looks go on in any case. */
  #follow(): void {
    if (this.#watcher !== undefined) return
    try {
      const watcher = watch(this.#options.directory, { persistent: false }, () => {
        if (this.#announced) return
        this.#announced = true
        if (this.#looking === undefined) this.#lookIn(ANNOUNCED_MS)
      })
      watcher.on('error', () => {
        watcher.close()
        this.#watcher = undefined
      })
      this.#watcher = watcher
    } catch {
      // Not there yet, or no more watches to be had: the next look tries again.
    }
  }
}

/** Texts are large and needed once. */
function withoutText(files: ReadonlyMap<string, FileState>): ReadonlyMap<string, FileState> {
  return new Map([...files].map(([name, state]) => [name, { ...state, text: undefined }]))
}

function isSame(a: ManifestObject, b: ManifestObject | undefined): boolean {
  return a === b || (b !== undefined && JSON.stringify(a.change) === JSON.stringify(b.change))
}
