/**
 * Kernel tests that run once more for each further firewall of ipvs mode: `FILE?firewall=NAME` is a
 * run of a file in which daemons have that one, unless the test itself chooses. With --all and in
 * CI these are all tests of traffic, otherwise one.
 */
import { FIELDS } from '../../src/config/fields.ts'

/** Those that the configuration can choose beside the usual one. */
export const FURTHER_FIREWALLS: readonly string[] = 'kubeIPVS.firewall' in FIELDS ? ['nftables'] : []

const TRAFFIC = /^test\/kernel\/traffic-[^/]+\.test\.ts$/
/** Every kind of frontend, from everywhere, in every protocol. */
const REPRESENTATIVE = 'test/kernel/traffic-frontends.test.ts'

/** The files and their further runs. */
export function withFirewalls(files: readonly string[], isFull: boolean, firewalls = FURTHER_FIREWALLS): string[] {
  return files.flatMap((file) => {
    const runsAgain = isFull ? TRAFFIC.test(file) : file === REPRESENTATIVE
    return [file, ...(runsAgain ? firewalls.map((name) => `${file}?firewall=${name}`) : [])]
  })
}

/** The firewall of the run that these arguments of a test process name; undefined: the usual one. */
export const firewallOfRun = (args: readonly string[] = process.argv): string | undefined =>
  args.flatMap((arg) => /\?firewall=(\w+)$/.exec(arg)?.[1] ?? [])[0]
