/**
 * What a source of objects (API server, manifests folder) tells the rest of the program, and nothing more.
 * What could break: `listed` must come after all changes of the first complete list of that kind were delivered.
 */
import type { ObjectChange, ObjectKind } from '../service/objects.ts'
import type { Problem } from '../values/errors.ts'

/** Receives what a source finds. All calls are synchronous and must not throw. */
export interface ObjectSink {
  /** Objects that are new, changed or gone. A relist arrives as the changes it amounts to. */
  apply(changes: readonly ObjectChange[]): void
  /** The first complete list of this kind was delivered. Called once for each kind. */
  listed(kind: ObjectKind): void
  /**
   * All problems with one subject as they stand now; an empty list when they are gone. The subject is an object with its kind
   * (`service demo/web`), a file of the manifests folder (`web.yaml`), or that folder when it cannot be read.
   */
  problems(subject: string, problems: readonly Problem[]): void
}

/** A running source. */
export interface Source {
  /** Stops for good; resolves when nothing of it is left running. No call to the sink comes after. */
  close(): Promise<void>
}
