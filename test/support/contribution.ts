/** What a Service wants of this node, made in one go. */
import { type Contribution, frontendsOf } from '../../src/service/contribution.ts'
import type { NodeContext } from '../../src/service/node-context.ts'
import type { EndpointSlice, Service } from '../../src/service/objects.ts'

/** The frontends of a Service. `slices` are that Service's own, in any order. */
export function contributionOf(service: Service, slices: readonly EndpointSlice[], node: NodeContext): Contribution {
  const making = frontendsOf(service, slices, node)
  for (;;) {
    const step = making.next()
    if (step.done === true) return step.value
  }
}
