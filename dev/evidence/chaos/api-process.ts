/** The API server's process, and the objects that outlive it, as etcd's do. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Fault } from '../../api-server/faults.ts'
import { asObject, type Json } from '../../api-server/store.ts'
import type { ObjectKind } from '../../../src/service/objects.ts'
import type { Message, Put } from './api-server-main.ts'

const MAIN = join(import.meta.dirname, 'api-server-main.ts')

/** What etcd has: a backup of it can be restored. */
interface State {
  readonly objects: ReadonlyMap<string, Put>
  readonly version: number
}

export class ApiProcess {
  url = ''
  #child: ChildProcess | undefined
  #objects = new Map<string, Put>()
  #hidden = new Map<string, Put>()
  #version = 1000

  async start(): Promise<void> {
    const child = fork(MAIN, [], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    this.#child = child
    const objects = [...this.#objects.values()].sort((a, b) => a.version - b.version)
    const port = this.url === '' ? 0 : Number(new URL(this.url).port)
    this.#send({ do: 'start', objects, version: this.#version, port })
    const [url] = await once(child, 'message')
    this.url = String(url)
  }

  #send(message: Message): void {
    // One that was killed is told everything when it starts.
    if (this.#child?.connected === true) this.#child.send(message, () => undefined)
  }

  put(kind: ObjectKind, object: Json): void {
    const put = { kind, object, version: ++this.#version }
    this.#objects.set(`${kind} ${keyOf(kind, object)}`, put)
    this.#send({ do: 'put', ...put })
  }

  delete(kind: ObjectKind, object: Json): void {
    this.#objects.delete(`${kind} ${keyOf(kind, object)}`)
    this.#send({ do: 'delete', kind, key: keyOf(kind, object), version: ++this.#version })
  }

  get state(): State {
    return { objects: new Map(this.#objects), version: this.#version }
  }

  /** Takes effect at the next start. */
  restore({ objects, version }: State): void {
    this.#objects = new Map(objects)
    this.#version = version
  }

  /**
   * Takes every object away until `unhide`. Takes effect at the next start, after which all
   * versions that clients know are too old, so that they list.
   */
  hide(): void {
    this.#hidden = this.#objects
    this.#objects = new Map()
    this.#version += 1000
  }

  unhide(): void {
    this.#objects = new Map([...this.#hidden, ...this.#objects])
    this.#version += 1000
  }

  inject(fault: Fault): void {
    this.#send({ do: 'fault', fault })
  }

  tell(what: 'reset connections' | 'heal'): void {
    this.#send({ do: what })
  }

  expire(everyMs: number): void {
    this.#send({ do: 'expire', everyMs })
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(signal)
  }

  async kill(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
}

function keyOf(kind: ObjectKind, object: Json): string {
  const { name, namespace = 'default' } = asObject(object['metadata'])
  return kind === 'nodes' ? String(name) : `${String(namespace)}/${String(name)}`
}
