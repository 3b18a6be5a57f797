/** The core of the kernel tests with the firewall iptables-legacy; the kernel matrix runs it on each kernel. */
import { coreTests } from '../../support/core.ts'
import { IPTABLES_LEGACY } from '../../support/firewalls.ts'

coreTests(IPTABLES_LEGACY)
