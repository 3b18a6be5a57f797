/** The core of the kernel tests with the firewall iptables-nft; the kernel matrix runs it on each kernel. */
import { coreTests } from '../../support/core.ts'
import { IPTABLES_NFT } from '../../support/firewalls.ts'

coreTests(IPTABLES_NFT)
