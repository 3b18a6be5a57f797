/**
 * The chains and jumps of every mode and release of kube-proxy, as each mode reads them: those that
 * a mode does not write are live items that it does not want, so it removes them once its own rules
 * are written.
 */
import { type ChainSet, layoutOf } from '../../iptables/layout.ts'
import { IPTABLES_CHAINS } from '../iptables/chains/chain-names.ts'
import { IPVS_CHAINS } from '../ipvs/iptables-firewall/rules/chain-names.ts'

/** What only older releases have. */
const OLDER_RELEASES: ChainSet = {
  // Of ipvs mode before 1.12.
  chains: { nat: ['KUBE-FIREWALL'] },
  // Of iptables mode before 1.24.
  hashedChains: ['KUBE-XLB'],
  jumps: [],
  otherJumps: ['INPUT', 'FORWARD', 'OUTPUT'].flatMap((from) => [
    `filter ${from} KUBE-SERVICES`,
    `filter ${from} KUBE-NODEPORTS`,
    `filter ${from} KUBE-PROXY-FIREWALL`,
  ]),
}

export const IPVS_LAYOUT = layoutOf({
  tables: ['nat', 'filter', 'mangle'],
  own: IPVS_CHAINS,
  others: [IPTABLES_CHAINS, OLDER_RELEASES],
})

/** The chain of ipvs mode that refuses what no Service has at a virtual IP. */
const REFUSAL = 'KUBE-IPVS-FILTER'

/**
 * Filter rules come first: connections that are refused are refused from the start. The refusals of
 * ipvs mode stay as long as its addresses, which the removal after a switch knows.
 */
export const IPTABLES_LAYOUT = layoutOf({
  tables: ['filter', 'nat', 'mangle'],
  own: IPTABLES_CHAINS,
  others: [
    {
      chains: { ...IPVS_CHAINS.chains, filter: IPVS_CHAINS.chains.filter?.filter((chain) => chain !== REFUSAL) ?? [] },
      jumps: IPVS_CHAINS.jumps.filter(({ to }) => to !== REFUSAL),
    },
    OLDER_RELEASES,
  ],
})

export const REFUSAL_LAYOUT = layoutOf({
  tables: ['filter'],
  own: { chains: { filter: [REFUSAL] }, jumps: IPVS_CHAINS.jumps.filter(({ to }) => to === REFUSAL) },
  others: [],
})

/**
 * For a cleanup, which wants nothing of any mode. As after kube-proxy's, KUBE-FIREWALL stays: it may
 * be kubelet's, and without it hosts reach 127.0.0.1 where route_localnet is set (CVE-2020-8558).
 */
export const CLEANUP_LAYOUT = IPVS_LAYOUT
