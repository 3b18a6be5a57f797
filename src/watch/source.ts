/** The interface between a source of objects (API server, manifests folder) and the rest of the program. */
import type { ObjectChange, ObjectKind } from '../service/objects.ts'
import type { Problem } from '../values/errors.ts'

/**
 * Receives the changes and problems of a source. All calls are synchronous and must not throw. A
 * source keeps the sink and not its functions, which may be replaced.
 */
export interface ObjectSink {
  /** Added, changed and removed objects. A relist arrives as its difference to the objects before. */
  apply(changes: readonly ObjectChange[]): void
  /** All changes of the first complete list of this kind have been delivered. Called once for each kind. */
  listed(kind: ObjectKind): void
  /**
   * All present problems of one subject; an empty list when it has none any more. The subject is an
   * object with its kind (`service demo/web`), a file of the manifests folder (`web.yaml`), or that
   * folder when it cannot be read.
   */
  problems(subject: string, problems: readonly Problem[]): void
}

/** A running source. */
export interface Source {
  /** Stops the source; resolves when everything in it has ended. The sink is not called afterwards. */
  close(): Promise<void>
}
