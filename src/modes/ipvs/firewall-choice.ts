/**
 * Which firewall ipvs mode uses, and why. iptables comes first where it works, because other
 * programs know its chains and sets. Where it does not, the nftables firewall is better than another
 * mode, unless a chain of iptables would drop what it accepts and iptables mode can serve instead.
 */
import { CodedError } from '../../values/errors.ts'
import type { ChosenFirewall, ConfiguredFirewall, FirewallName } from '../chosen-firewall.ts'
import type { FallbackReason } from '../fallback.ts'
import type { DroppingChain } from './dropping-chains.ts'

/** Codes of the errors with which a firewall says that the kernel or the node lacks something. */
const LACKS = {
  iptables: ['iptables-missing', 'ipset-missing', 'set-match-missing'],
  nftables: ['nftables-missing'],
} as const satisfies Readonly<Record<FirewallName, readonly (FallbackReason | 'iptables-missing')[]>>

/** Such an error of that firewall; undefined: it is about something else. */
export function lackOfFirewall(name: FirewallName, error: unknown): CodedError | undefined {
  if (!(error instanceof CodedError)) return undefined
  const codes: readonly string[] = LACKS[name]
  return codes.includes(error.code) ? error : undefined
}

export interface FirewallsSeen {
  /** What the firewall lacks here; undefined: it works, or the decision needs no answer. */
  readonly iptables: CodedError | undefined
  readonly nftables: CodedError | undefined
  /** Chains that drop forwarded or incoming packets whatever the nftables firewall accepts. */
  readonly dropping: readonly DroppingChain[]
  /** `kubeIPVS.fallback` allows iptables mode. */
  readonly mayFallBack: boolean
}

/** The firewall; or the error with which ipvs mode cannot be opened, for which there may be a fallback. */
export type FirewallDecision =
  | { readonly chosen: ChosenFirewall }
  | {
      readonly error: CodedError
      /** They keep the nftables firewall from being chosen. */
      readonly dropping: readonly DroppingChain[]
    }

export function decideFirewall(configured: ConfiguredFirewall, seen: FirewallsSeen): FirewallDecision {
  if (configured !== 'auto') {
    const { [configured]: error } = seen
    const reason = `kubeIPVS.firewall is ${configured}`
    return error === undefined ? { chosen: { name: configured, configured, lack: '', reason } } : refused(error)
  }
  const { iptables, nftables, mayFallBack } = seen
  // One at the hook input does the same to what iptables mode accepts there.
  const dropping = seen.dropping.filter(({ hook }) => hook === 'forward')
  if (iptables === undefined)
    return { chosen: { name: 'iptables', configured, lack: '', reason: 'this node has everything for it' } }
  if (nftables !== undefined) return refused(bothMissing(iptables, nftables))
  if (canIptablesModeServe(iptables, mayFallBack) && isOvercomeByIptables(dropping))
    return { error: iptables, dropping }
  const lack = codeOf(iptables)
  const reason = `that of iptables cannot work here: ${iptables.message}`
  return { chosen: { name: 'nftables', configured, lack, reason } }
}

/** Whether iptables mode may serve in place of ipvs mode: it needs the programs of iptables. Else no chain decides. */
export function canIptablesModeServe({ code }: CodedError, mayFallBack: boolean): boolean {
  return mayFallBack && code !== 'iptables-missing'
}

/**
 * An accept of iptables mode stands in the chains of iptables themselves, so that it counts there. A
 * chain beside iptables drops what either accepts.
 */
function isOvercomeByIptables(dropping: readonly DroppingChain[]): boolean {
  return dropping.length > 0 && dropping.every(({ isOfIptables }) => isOfIptables)
}

function refused(error: CodedError): FirewallDecision {
  return { error, dropping: [] }
}

/** The code is that of iptables, for which there may be a fallback. */
function bothMissing(iptables: CodedError, nftables: CodedError): CodedError {
  const message = `${iptables.message}; nor does the nftables firewall work here: ${nftables.message}`
  return new CodedError(iptables.code, message, { cause: iptables })
}

function codeOf({ code }: CodedError): ChosenFirewall['lack'] {
  return LACKS.iptables.find((known) => known === code) ?? ''
}
