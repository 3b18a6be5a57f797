/**
 * Kernel tests that run once more for each further firewall of ipvs mode: `FILE?firewall=NAME` is a
 * run of a file in which daemons have that one, unless the test itself chooses. With --all and in
 * CI these are all tests of traffic, which run in a bare guest too; a quick run has none of them.
 */
import { FIELDS } from '../../src/config/fields.ts'
import { BARE } from './directives.ts'

/** Those that the configuration can choose beside the usual one. */
export const FURTHER_FIREWALLS: readonly string[] = 'kubeIPVS.firewall' in FIELDS ? ['nftables'] : []

/** The daemon chooses it there by itself. */
const OF_BARE_GUEST = 'nftables'

/** Those that a full run has in a bare guest too. */
const ALSO_BARE = /^test\/kernel\/(?:traffic-[^/]+|nftables-firewall)\.test\.ts$/
const TRAFFIC = /^test\/kernel\/traffic-[^/]+\.test\.ts$/

/** The files and their further runs. */
export function withFirewalls(files: readonly string[], isFull: boolean, firewalls = FURTHER_FIREWALLS): string[] {
  const runsBare = isFull && firewalls.includes(OF_BARE_GUEST)
  return files.flatMap((file) => {
    const runsAgain = isFull && TRAFFIC.test(file)
    const bare = `${file}${BARE}`
    return [
      file,
      ...(runsAgain ? firewalls.map((name) => `${file}?firewall=${name}`) : []),
      ...(runsBare && ALSO_BARE.test(file) && !files.includes(bare) ? [bare] : []),
    ]
  })
}

/** The firewall of the run that these arguments of a test process name; undefined: the usual one. */
export function firewallOfRun(args: readonly string[] = process.argv): string | undefined {
  if (args.some((arg) => arg.endsWith(BARE))) return OF_BARE_GUEST
  return args.flatMap((arg) => /\?firewall=(\w+)$/.exec(arg)?.[1] ?? [])[0]
}
