/** The contribution of a Service, made in one call. */
import assert from 'node:assert/strict'
import { type Contribution, type FrontendSettings, frontendsOf } from '../../src/service/contribution.ts'
import { type AddressFrontend, type FrontendKey, hasAddress } from '../../src/service/frontends.ts'
import type { NodeContext } from '../../src/service/node-context.ts'
import type { EndpointSlice, Service } from '../../src/service/objects.ts'

/** The frontends of a Service under any settings. `slices` are that Service's own, in any order. */
export function anyContributionOf(
  service: Service,
  slices: readonly EndpointSlice[],
  node: NodeContext,
  settings: FrontendSettings,
): Contribution {
  const making = frontendsOf(service, slices, node, settings)
  for (;;) {
    const step = making.next()
    if (step.done === true) return step.value
  }
}

export interface AddressContribution extends Contribution {
  readonly frontends: ReadonlyMap<FrontendKey, AddressFrontend>
}

/** The frontends of a Service, each with an address. */
export function contributionOf(
  service: Service,
  slices: readonly EndpointSlice[],
  node: NodeContext,
  settings: Omit<FrontendSettings, 'nodePorts'> = {},
): AddressContribution {
  const contribution = anyContributionOf(service, slices, node, settings)
  const frontends = new Map<FrontendKey, AddressFrontend>()
  for (const [key, frontend] of contribution.frontends) {
    assert.ok(hasAddress(frontend), key)
    frontends.set(key, frontend)
  }
  return { ...contribution, frontends }
}
