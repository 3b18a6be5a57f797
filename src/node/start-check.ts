/**
 * The check at the start: what the mode needs and the kernel or the node lacks, with the module to
 * load and the effect. The check must not change the node, so each question to the kernel must be
 * one that creates nothing. What the check cannot find out is never reported as missing.
 * @impure
 */
import type { IpFamily } from '../values/protocol.ts'
import { type Need, type NeedsOptions, needsOf, type Question, type Severity, usesIptables } from './needs.ts'
import { isOfIpvs, type KernelSetting } from './kernel-settings.ts'
import { refusalOf } from './sysctl.ts'
import { errorText } from '../values/errors.ts'
import { ownMember } from '../values/own-member.ts'

/** Something that is missing, and its effect. */
export interface Finding {
  /** `match ipvs`, `set type hash:ip of IPv6`, `sysctl net/ipv4/vs/conntrack` */
  readonly what: string
  /** Kernel module to load; '' if no module would help. */
  readonly module: string
  readonly effect: string
  readonly severity: Severity
}

/** The result of the check. */
export interface StartCheck {
  /** In the order of severity, fatal ones first. */
  readonly findings: readonly Finding[]
  /** Matches that the kernel lacks in at least one IP family. */
  readonly missingMatches: ReadonlySet<string>
}

/**
 * Asks the kernel one question. Resolves to undefined if the answer is not conclusive, and rejects
 * if the question cannot be asked, for example without permission. A question may cause the kernel
 * to load a module, but must create nothing.
 */
export type Ask = (question: Question) => Promise<boolean | undefined>

/** Checks everything that the mode needs. @param settings the settings that the start is going to write */
export async function checkStart(
  node: NeedsOptions,
  settings: readonly KernelSetting[],
  ask: Ask,
  root = '',
): Promise<StartCheck> {
  const findings: Finding[] = node.iptables === undefined && usesIptables(node) ? [NO_PROGRAMS] : []
  const missingMatches = new Set<string>()
  let hasIpvs = true
  for (const group of needsOf(node)) {
    const closed = new Set<IpFamily | undefined>()
    try {
      for (const need of group) {
        const missing = await missingFamilies(need, closed, ask)
        if (missing.length === 0) continue
        findings.push(findingOf(need, missing))
        if (need.kind === 'match') missingMatches.add(need.name)
        if (need.kind === 'IPVS') hasIpvs = false
        if (need.gate ?? false) for (const family of missing) closed.add(family)
        if (closed.has(undefined) || node.families.every((family) => closed.has(family))) break
      }
    } catch (error) {
      findings.push(unanswered(group, error))
    }
  }
  // Without IPVS its settings do not exist, and the missing IPVS is already a finding.
  for (const setting of settings) if (hasIpvs || !isOfIpvs(setting)) findings.push(...checkSetting(setting, root))
  return { findings: findings.toSorted((a, b) => RANK[a.severity] - RANK[b.severity]), missingMatches }
}

const RANK: Readonly<Record<Severity, number>> = { fatal: 0, error: 1, warning: 2 }

const NO_PROGRAMS: Finding = {
  what: 'program iptables-restore',
  module: '',
  effect: 'no rules can be written: install the package iptables',
  severity: 'error',
}

type Families = readonly (IpFamily | undefined)[]

/** The IP families in which a need is missing. Families in `closed` are not checked. */
async function missingFamilies(need: Need, closed: ReadonlySet<IpFamily | undefined>, ask: Ask): Promise<Families> {
  const missing: (IpFamily | undefined)[] = []
  for (const family of need.families) {
    if (closed.has(family)) continue
    if ((await ask({ kind: need.kind, name: need.name, family })) === false) missing.push(family)
  }
  return missing
}

function findingOf({ kind, name, families, module, effect, severity }: Need, missing: Families): Finding {
  const modules = missing.map((family) =>
    typeof module === 'string' ? module : family === undefined ? '' : module[family],
  )
  const only = missing.length < families.length ? ` of ${missing.join()}` : ''
  return {
    what: `${kind}${name === '' ? '' : ` ${name}`}${only}`,
    module: [...new Set(modules)].join(' '),
    effect,
    severity,
  }
}

/** The kernel could not be asked about a whole group. */
function unanswered([first]: readonly Need[], error: unknown): Finding {
  const reason = errorText(error)
  return { what: `cannot ask for ${first?.kind}`, module: '', effect: reason, severity: 'warning' }
}

/** The effect of a missing setting. */
const SYSCTL_EFFECTS: Readonly<Record<string, readonly [effect: string, severity: Severity]>> = {
  'net/ipv4/vs/conntrack': ['connections through IPVS are not masqueraded', 'error'],
  'net/ipv4/vs/expire_nodest_conn': ['connections to a removed endpoint hang until they time out', 'warning'],
  'net/ipv4/vs/expire_quiescent_template': ['clients with session affinity stay on a draining endpoint', 'warning'],
  'net/ipv4/ip_forward': ['packets are not forwarded to pods', 'error'],
  'net/ipv4/conf/all/arp_ignore': ['the node answers ARP for addresses of Services (strictARP)', 'warning'],
  'net/ipv4/conf/all/arp_announce': ['the node announces addresses of Services by ARP (strictARP)', 'warning'],
}

/** A setting that already has the wanted value may be read-only. */
function checkSetting(setting: KernelSetting, root: string): readonly Finding[] {
  const refusal = refusalOf(setting, root)
  if (refusal === undefined) return []
  const name = setting.path.replace('/proc/sys/', '')
  const [effect, severity] = ownMember(SYSCTL_EFFECTS, name) ?? ['the setting keeps its value', 'warning']
  const code = 'code' in refusal ? String(refusal.code) : String(refusal)
  const reason = code === 'ENOENT' ? 'the kernel does not have it' : `it cannot be set to ${setting.value} (${code})`
  return [{ what: `sysctl ${name}`, module: '', effect: `${effect}: ${reason}`, severity }]
}
