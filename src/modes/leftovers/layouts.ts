/**
 * The layouts that the modes write with. Each contains the chains and jumps of the other mode as well: those are live items
 * that the mode does not want, so it removes them once its own rules are written.
 */
import { layoutOf } from '../../iptables/layout.ts'
import { IPTABLES_CHAINS } from '../iptables/chains/chain-names.ts'
import { IPVS_CHAINS } from '../ipvs/rules/chain-names.ts'

export const IPVS_LAYOUT = layoutOf(['nat', 'filter', 'mangle'], IPVS_CHAINS, [IPTABLES_CHAINS])

/** Filter rules come first: connections that are refused are refused from the start. */
export const IPTABLES_LAYOUT = layoutOf(['filter', 'nat', 'mangle'], IPTABLES_CHAINS, [IPVS_CHAINS])
