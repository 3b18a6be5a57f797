/** Who receives what the computation of frontends has changed. */
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import type { Problem } from '../values/errors.ts'

export interface FrontendListener {
  /** The frontend that owns `key` has changed; undefined when no Service claims the key any more. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void
  /** All current problems with this owner's frontends. */
  problems(owner: string, problems: readonly Problem[]): void
}
