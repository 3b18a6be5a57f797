/**
 * What a firewall of ipsets and iptables left in the kernel beside its rules, which are among those
 * of all modes: the sets.
 */
import { type SetRole, setName } from '../../../ipset/catalogue.ts'
import type { SetRequests } from '../../../ipset/connection.ts'
import { EntryTable, SetTable } from '../../../ipset/tables.ts'
import { isModuleThere } from '../../../node/host.ts'
import { type FrontendKey, parseFrontendKey } from '../../../service/frontends.ts'
import { type Reconciled, reconciled } from '../../../sync/reconciled.ts'
import { TableSync } from '../../../sync/table-sync.ts'
import type { Budget } from '../../../values/budget.ts'
import { unlessMissing } from '../../../values/errors.ts'
import { newBudget } from '../../../values/event-loop.ts'
import type { IpFamily, Protocol } from '../../../values/protocol.ts'
import type { FirewallRemains } from '../firewall.ts'
import { openIpset } from '../../open-ipset.ts'

const NO_HOOKS = { onSetLost: () => undefined, onGrown: () => undefined }

const NAMED: readonly SetRole[] = ['CLUSTER-IP', 'EXTERNAL-IP', 'EXTERNAL-IP-LOCAL', 'LOAD-BALANCER']
const NODE_PORTS: Readonly<Record<Protocol, SetRole>> = {
  tcp: 'NODE-PORT-TCP',
  udp: 'NODE-PORT-UDP',
  sctp: 'NODE-PORT-SCTP-HASH',
}

export class SetRemains implements FirewallRemains {
  readonly #ipset: SetRequests & { close(): void }
  readonly #sets: SetTable
  readonly #entries: EntryTable

  constructor(ipset: SetRequests & { close(): void }, families: readonly IpFamily[]) {
    this.#ipset = ipset
    this.#sets = new SetTable(ipset, families)
    this.#entries = new EntryTable(ipset, { families, ...NO_HOOKS })
  }

  async owned(nodeAddresses: ReadonlySet<string>, signal: AbortSignal): Promise<(key: FrontendKey) => boolean> {
    const entries = await this.#entries.list('all', signal)
    const has = (role: SetRole, family: IpFamily, entry: string): boolean =>
      entries.has(`${setName(role, family)} ${entry}`)
    return (key) => {
      const { family, address, port, protocol } = parseFrontendKey(key)
      const named = `${address},${protocol}:${port}`
      if (NAMED.some((role) => has(role, family, named))) return true
      if (protocol === 'sctp') return has(NODE_PORTS.sctp, family, named)
      return nodeAddresses.has(address) && has(NODE_PORTS[protocol], family, String(port))
    }
  }

  removal(): readonly Reconciled[] {
    return [reconciled(new TableSync(this.#sets)), reconciled(new TableSync(this.#entries))]
  }

  close(): void {
    this.#ipset.close()
  }
}

/** Undefined where the kernel has no ipset. */
export function openSetRemains(families: readonly IpFamily[], signal: AbortSignal): Promise<SetRemains | undefined> {
  return unlessMissing('ipset-missing', async () => new SetRemains(await openIpset(signal), families))
}

/** Loads no module. */
export async function hasSets(
  families: readonly IpFamily[],
  signal: AbortSignal,
  budget: Budget = newBudget(),
): Promise<boolean> {
  if (!isModuleThere('ip_set')) return false
  const ipset = await openIpset(signal)
  try {
    const sets = new SetTable(ipset, families)
    return (await ipset.listSets({ signal, budget })).some(({ name }) => sets.isOurs(name))
  } finally {
    ipset.close()
  }
}
