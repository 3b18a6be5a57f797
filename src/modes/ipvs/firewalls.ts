/**
 * The firewalls of ipvs mode by name, each loaded where it is used; the choice of one of them; and
 * what firewalls of any kind left.
 */
import type { KubeIpvsSettings } from '../../config/types.ts'
import type { FrontendKey } from '../../service/frontends.ts'
import { CodedError } from '../../values/errors.ts'
import type { IpFamily } from '../../values/protocol.ts'
import type { ChosenFirewall, FirewallName } from '../chosen-firewall.ts'
import { type DroppingChain, droppingChains } from './dropping-chains.ts'
import type { FirewallKind, FirewallRemains } from './firewall.ts'
import { canIptablesModeServe, decideFirewall, lackOfFirewall } from './firewall-choice.ts'

/** Loads the code of a firewall. */
export type FirewallKinds = Readonly<Record<FirewallName, () => Promise<FirewallKind>>>

export const FIREWALLS: FirewallKinds = {
  iptables: async () => (await import('./iptables-firewall/kernel.ts')).IPTABLES_FIREWALL,
  nftables: async () => (await import('./nftables-firewall/kernel.ts')).NFTABLES_FIREWALL,
}

export interface ChoiceOptions<T> {
  readonly settings: Pick<KubeIpvsSettings, 'firewall' | 'fallback'>
  /** Opens a firewall, or only asks for it. Rejects as `FirewallKind.open` does. */
  readonly attempt: (kind: FirewallKind) => Promise<T>
  readonly signal: AbortSignal
  readonly kinds?: FirewallKinds
  /** Chains of other firewalls cannot be read: the choice is made as if there were none. */
  readonly onUnread?: (error: unknown) => void
  /** As `droppingChains`; a test replaces it. */
  readonly dropping?: (signal: AbortSignal) => Promise<readonly DroppingChain[]>
}

/** Other firewalls keep the nftables firewall from being chosen in place of one that lacks something. */
export class KeptFromNftables extends CodedError {
  readonly dropping: readonly DroppingChain[]

  constructor(lack: CodedError, dropping: readonly DroppingChain[]) {
    super(lack.code, lack.message, { cause: lack })
    this.dropping = dropping
  }
}

/**
 * The firewall that the configuration and this node allow, and what its attempt resolved to.
 * Rejects with what is missing; with `capability-missing` when this process lacks a right.
 */
export async function chooseFirewall<T>(
  options: ChoiceOptions<T>,
): Promise<{ readonly chosen: ChosenFirewall; readonly result: T }> {
  const { settings, attempt, kinds = FIREWALLS } = options
  const mayFallBack = settings.fallback === 'iptables'
  let [iptables, nftables]: (CodedError | undefined)[] = []
  let dropping: readonly DroppingChain[] = []
  // Each round learns what one firewall lacks.
  for (;;) {
    const decision = decideFirewall(settings.firewall, { iptables, nftables, dropping, mayFallBack })
    if ('error' in decision) {
      const { error } = decision
      throw decision.dropping.length === 0 ? error : new KeptFromNftables(error, decision.dropping)
    }
    const { chosen } = decision
    try {
      return { chosen, result: await attempt(await kinds[chosen.name]()) }
    } catch (error) {
      const lack = lackOfFirewall(chosen.name, error)
      if (lack === undefined) throw error
      if (chosen.name === 'nftables') nftables = lack
      else {
        iptables = lack
        if (settings.firewall === 'auto' && canIptablesModeServe(lack, mayFallBack))
          dropping = await readDropping(options)
      }
    }
  }
}

async function readDropping({
  signal,
  onUnread = () => undefined,
  dropping = droppingChains,
}: ChoiceOptions<unknown>): Promise<readonly DroppingChain[]> {
  try {
    return await dropping(signal)
  } catch (error) {
    signal.throwIfAborted()
    onUnread(error)
    return []
  }
}

/** Whether the kernel has any of a firewall. The question may make the kernel load nf_tables, and no other module. */
export async function isAnyLeft(
  families: readonly IpFamily[],
  signal: AbortSignal,
  kinds: FirewallKinds = FIREWALLS,
): Promise<boolean> {
  for (const load of Object.values(kinds)) if (await (await load()).isLeft(families, signal)) return true
  return false
}

/** What firewalls of all kinds left; undefined where the kernel can have none. */
export async function allRemains(
  families: readonly IpFamily[],
  signal: AbortSignal,
  kinds: FirewallKinds = FIREWALLS,
): Promise<FirewallRemains | undefined> {
  const all: FirewallRemains[] = []
  try {
    for (const load of Object.values(kinds)) {
      const remains = await (await load()).remains(families, signal)
      if (remains !== undefined) all.push(remains)
    }
  } catch (error) {
    for (const remains of all) remains.close()
    throw error
  }
  if (all.length === 0) return undefined
  return {
    async owned(nodeAddresses, abort) {
      const owned: ((key: FrontendKey) => boolean)[] = []
      for (const remains of all) owned.push(await remains.owned(nodeAddresses, abort))
      return (key) => owned.some((isOwned) => isOwned(key))
    },
    removal: () => all.flatMap((remains) => remains.removal()),
    close: () => {
      for (const remains of all) remains.close()
    },
  }
}
