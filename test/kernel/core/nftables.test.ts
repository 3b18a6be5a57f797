/** The core of the kernel tests with the firewall nftables; the kernel matrix runs it on each kernel. */
import { coreTests } from '../../support/core.ts'
import { NFTABLES } from '../../support/firewalls.ts'

coreTests(NFTABLES)
