/**
 * What doctor asks the kernel over netlink and the programs of iptables. It changes nothing; a
 * question about a missing feature may load its module, as a start would.
 * @impure
 */
import { isClockSynchronized } from '../../native/clock-status.ts'
import { askNetfilter } from '../../native/open.ts'
import type { KubeProxyConfiguration } from '../config/types.ts'
import { restOfChain } from '../nftables/chain-rest.ts'
import { isBesideIptables, listNftBaseChains } from '../nftables/chains.ts'
import { listNftTables } from '../nftables/tables.ts'
import { NFT_FAMILY } from '../nftables/types.ts'
import type { FirewallName } from '../modes/chosen-firewall.ts'
import { checkNode, likelyFirewall } from '../modes/ipvs/node-preparation.ts'
import type { Look } from '../modes/look/look.ts'
import { modesIn, type ProxyMode } from '../modes/modes-in-kernel.ts'
import type { IptablesChoice } from '../node/iptables-choice.ts'
import { legacyTables } from '../node/legacy-tables.ts'
import { runProgram } from '../node/programs.ts'
import { CodedError, errorText } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { SERVICE_DEVICE } from '../values/well-known.ts'
import { type Seen, unseen } from './seen.ts'
import type { InterfaceFact, NodeFacts } from './facts.ts'
import { readNumber } from './read-files.ts'
import { readForeignRules } from './read-foreign-rules.ts'
import type { NftChainFact } from './rule-facts.ts'

/** The value, or why it cannot be read. */
export async function attempt<T>(read: () => Promise<T> | T): Promise<Seen<T>> {
  try {
    return { value: await read() }
  } catch (error) {
    return unseen(errorText(error))
  }
}

const MAX_INTERFACES = 1000
const MAX_ADDRESSES = 64
const IFF_UP = 1

export async function readInterfaces({ rtnetlink }: Look, signal: AbortSignal): Promise<readonly InterfaceFact[]> {
  const [links, addresses] = [await rtnetlink.listLinks({ signal }), await rtnetlink.listAddresses({ signal })]
  const byIndex = Map.groupBy(addresses, ({ interfaceIndex }) => interfaceIndex)
  // The devices of pods may be thousands and say little: those with addresses come first.
  const ranked = links.toSorted((a, b) => Number(byIndex.has(b.index)) - Number(byIndex.has(a.index)))
  return ranked.slice(0, MAX_INTERFACES).map(({ index, name, kind, flags, operState }) => {
    const own = byIndex.get(index) ?? []
    const kept = name === SERVICE_DEVICE ? [] : own.slice(0, MAX_ADDRESSES)
    return {
      name,
      kind,
      isUp: (flags & IFF_UP) !== 0,
      operState,
      addresses: kept.map(({ address, prefixLength }) => `${address}/${prefixLength}`),
      rpFilter: /^[^/]+$/.test(name) ? (readNumber(`/proc/sys/net/ipv4/conf/${name}/rp_filter`) ?? null) : null,
    }
  })
}

type IpvsFact = NodeFacts['ipvs'] extends Seen<infer T> ? T : never

/** null when the kernel has no IPVS. */
export async function readIpvs(look: Look, signal: AbortSignal): Promise<IpvsFact> {
  const ipvs = await look.ipvs(signal)
  if (ipvs === undefined) return null
  const services = await ipvs.listServices({ signal })
  const { tcpSeconds } = await ipvs.getTimeouts({ signal })
  const fields = services.flatMap((one) => (one.kind === 'address' ? [one.fields] : []))
  const sctpServers = fields.filter(({ protocol }) => protocol === 'sctp').length
  const ipv6Servers = fields.filter(({ address }) => address.includes(':')).length
  return { virtualServers: services.length, sctpServers, ipv6Servers, tcpTimeoutSeconds: tcpSeconds }
}

type Rules = Pick<
  NodeFacts,
  'iptables' | 'rules' | 'legacyTables' | 'nftRules' | 'rivals' | 'modesInKernel' | 'lacks' | 'likelyFirewall'
>

type RulesLook = Pick<Look, 'families' | 'iptables' | 'otherIptables' | 'virtualIps'>

/**
 * The back ends of iptables, their rules and modes, and what the kernel lacks for ipvs mode.
 * @param running the firewall of the daemon that runs in ipvs mode
 */
export async function readRules(
  look: RulesLook,
  configuration: KubeProxyConfiguration,
  signal: AbortSignal,
  running?: FirewallName,
): Promise<Rules> {
  const likely = await attempt(() => likelyFirewall(configuration, signal))
  const firewall = running === undefined ? likely : { value: running }
  const others = await readOtherRules(look, configuration, firewall, signal)
  return { likelyFirewall: likely, legacyTables: readLegacyTables(look.families), ...others }
}

/** What no program of iptables is needed for. */
type OfKernel = 'likelyFirewall' | 'legacyTables'

function readLegacyTables(families: readonly IpFamily[]): readonly string[] {
  return families.flatMap((family) =>
    legacyTables({ families: [family] }).map((table) => `${NFT_FAMILY[family]} ${table.slice(0, 50)}`),
  )
}

async function readOtherRules(
  look: RulesLook,
  configuration: KubeProxyConfiguration,
  firewall: Rules['likelyFirewall'],
  signal: AbortSignal,
): Promise<Omit<Rules, OfKernel>> {
  try {
    const { choice } = await look.iptables(signal)
    const { reason } = choice
    return {
      iptables: { value: { backEnd: choice.mode, reason, version: await versionOf(choice, signal) } },
      ...(await readBackEnds(look, signal)),
      lacks: await readLacks(configuration, firewall, signal, choice),
    }
  } catch (error) {
    const lacks = await readLacks(configuration, firewall, signal)
    const reason = errorText(error)
    // That no program is installed is an answer, not a failure.
    return error instanceof CodedError && error.code === 'iptables-missing'
      ? {
          iptables: { value: { backEnd: null, reason, version: null } },
          rules: { value: [] },
          ...NO_FOREIGN_RULES,
          modesInKernel: await readModes(look, [], signal),
          lacks,
        }
      : { iptables: unseen(reason), ...(await rulesUnseen(look, unseen(reason), signal)), lacks }
  }
}

async function readLacks(
  configuration: KubeProxyConfiguration,
  firewall: Rules['likelyFirewall'],
  signal: AbortSignal,
  choice?: IptablesChoice,
): Promise<NodeFacts['lacks']> {
  if ('unseen' in firewall) return firewall
  return attempt(async () => {
    const options = { firewall: firewall.value, ...(choice === undefined ? {} : { iptables: choice }) }
    const { findings } = await checkNode({ configuration, signal, ...options })
    return findings
  })
}

type OfBackEnds = Omit<Rules, 'iptables' | 'lacks' | OfKernel>

const NO_FOREIGN_RULES = { nftRules: { value: { unprinted: [], rules: [] } }, rivals: { value: [] } }

async function readBackEnds(look: RulesLook, signal: AbortSignal): Promise<OfBackEnds> {
  const read = await attempt(() => readForeignRules(look, signal))
  if ('unseen' in read) return rulesUnseen(look, read, signal)
  const { rules, nftRules, rivals, modes } = read.value
  const modesInKernel = await readModes(look, modes, signal)
  return { rules: { value: rules }, nftRules: { value: nftRules }, rivals: { value: rivals }, modesInKernel }
}

/** Virtual IPs show ipvs mode also without rules; that they are not there says nothing about iptables mode. */
async function rulesUnseen(
  look: RulesLook,
  reason: { readonly unseen: string },
  signal: AbortSignal,
): Promise<OfBackEnds> {
  const modes = await readModes(look, [], signal)
  const modesInKernel = 'value' in modes && modes.value.length > 0 ? modes : reason
  return { rules: reason, nftRules: reason, rivals: reason, modesInKernel }
}

/** @param ofRules the modes whose rules there are, which are known also when virtual IPs are not */
async function readModes(
  look: RulesLook,
  ofRules: readonly ProxyMode[],
  signal: AbortSignal,
): Promise<NodeFacts['modesInKernel']> {
  const byVirtualIps = await attempt(async () => modesIn({ ...(await look.virtualIps(signal)), saved: {} }))
  if ('unseen' in byVirtualIps && ofRules.length === 0) return byVirtualIps
  return { value: Array.from(new Set([...('value' in byVirtualIps ? byVirtualIps.value : []), ...ofRules])) }
}

/** `1.8.9`; null when the program does not print it. */
async function versionOf(choice: IptablesChoice, signal: AbortSignal): Promise<string | null> {
  if (choice.version !== undefined) return choice.version
  const save = choice.programs.IPv4?.save ?? choice.programs.IPv6?.save
  if (save === undefined) return null
  try {
    const { output } = await runProgram({ program: save.replace(/-save$/, ''), args: ['--version'], signal })
    return /v(\d+(?:\.\d+){1,3})/.exec(output)?.[1] ?? null
  } catch {
    return null
  }
}

const PROXY_TABLE = 'kube-proxy'
const MAX_NFT_CHAINS = 100

/** The tables of kube-proxy's nftables mode, and chains of other firewalls. */
export async function readNft(signal: AbortSignal): Promise<Pick<NodeFacts, 'nftProxyTables' | 'nftChains'>> {
  const nftProxyTables = await attempt(() =>
    askNetfilter([], async (netlink) => {
      const tables = (await listNftTables(netlink, { signal })).filter(({ name }) => name === PROXY_TABLE)
      return tables.map(({ family, name }) => `${NFT_FAMILY[family]} ${name}`).slice(0, 4)
    }),
  )
  const nftChains = await attempt(() =>
    askNetfilter([], async (netlink) => {
      const facts: NftChainFact[] = []
      for (const base of await listNftBaseChains(netlink, { signal })) {
        const { family, table, chain, hook } = base
        if (facts.length === MAX_NFT_CHAINS || table === PROXY_TABLE || !isBesideIptables(base)) continue
        if (hook === 'prerouting' || hook === 'postrouting') continue
        facts.push({ family, table, chain, hook, policy: await restOfChain(netlink, base, { signal }) })
      }
      return facts
    }),
  )
  return { nftProxyTables, nftChains }
}

export function readClock(): Promise<NodeFacts['clock']> {
  return attempt(() => ({ isSynchronized: isClockSynchronized() }))
}
