/**
 * The check at a start: what the kernel and the node offer of what ipvs mode needs, each missing piece with the module to
 * load and the effect.
 * What could break: it may change nothing on the node, so every question must be one that makes nothing; and what cannot
 * be found out is never reported as missing.
 */
import { accessSync, constants, readFileSync } from 'node:fs'
import type { IpFamily } from '../values/protocol.ts'
import { type Need, type NodeNeeds, needsOf, type Question, type Severity } from './needs.ts'
import type { KernelSetting } from './kernel-setting.ts'
import { errorText } from '../values/errors.ts'

/** Something that is missing, and what follows from that. */
export interface Finding {
  /** `match ipvs`, `set type hash:ip of IPv6`, `sysctl net/ipv4/vs/conntrack` */
  readonly what: string
  /** Kernel module to load; '' when there is none that would help. */
  readonly module: string
  readonly effect: string
  readonly severity: Severity
}

export interface StartCheck {
  /** The worst first. */
  readonly findings: readonly Finding[]
  /** Matches that the kernel lacks in one family at least. */
  readonly missingMatches: ReadonlySet<string>
}

/**
 * Asks the kernel. undefined: it cannot be told. Rejects when it cannot even be asked, by lack of permission for example.
 * A question may make the kernel load a module, and must make nothing else.
 */
export type Ask = (question: Question) => Promise<boolean | undefined>

/** Asks for everything that is needed. `settings` are those that are going to be written. */
export async function checkStart(
  node: NodeNeeds,
  settings: readonly KernelSetting[],
  ask: Ask,
  root = '',
): Promise<StartCheck> {
  const findings: Finding[] = node.iptables === undefined ? [NO_PROGRAMS] : []
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
      findings.push(unasked(group, error))
    }
  }
  // Without IPVS its settings do not exist, and that has been said.
  for (const setting of settings)
    if (hasIpvs || !setting.path.startsWith('/proc/sys/net/ipv4/vs/')) findings.push(...checkSetting(setting, root))
  return { findings: findings.toSorted((a, b) => RANK[a.severity] - RANK[b.severity]), missingMatches }
}

const RANK: Readonly<Record<Severity, number>> = { fatal: 0, error: 1, warning: 2 }

const NO_PROGRAMS: Finding = {
  what: 'program iptables-restore',
  module: '',
  effect: 'no rule can be written: install the package iptables',
  severity: 'error',
}

type Families = readonly (IpFamily | undefined)[]

/** Families in `closed` are not asked for. */
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

function unasked([first]: readonly Need[], error: unknown): Finding {
  const reason = errorText(error)
  return { what: `cannot ask for ${first?.kind}`, module: '', effect: reason, severity: 'warning' }
}

/** What goes wrong without a setting. */
const SYSCTL_EFFECTS: Readonly<Record<string, readonly [effect: string, severity: Severity]>> = {
  'net/ipv4/vs/conntrack': ['connections through IPVS are not masqueraded', 'error'],
  'net/ipv4/vs/expire_nodest_conn': ['connections to an endpoint that has gone hang until they time out', 'warning'],
  'net/ipv4/vs/expire_quiescent_template': ['clients with affinity stay at an endpoint that drains', 'warning'],
  'net/ipv4/ip_forward': ['nothing is forwarded to pods', 'error'],
  'net/ipv4/conf/all/arp_ignore': ['the node answers ARP for addresses of Services (strictARP)', 'warning'],
  'net/ipv4/conf/all/arp_announce': ['the node announces addresses of Services by ARP (strictARP)', 'warning'],
}

/** A setting that is as wanted needs no file that can be written. */
function checkSetting({ path, value, rule }: KernelSetting, root: string): readonly Finding[] {
  const name = path.replace('/proc/sys/', '')
  try {
    const now = Number(readFileSync(root + path, 'utf8'))
    if (rule === 'exact' ? now === value : now >= value) return []
    accessSync(root + path, constants.W_OK)
    return []
  } catch (error) {
    const [effect, severity] = SYSCTL_EFFECTS[name] ?? ['it stays as it is', 'warning']
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    const reason = code === 'ENOENT' ? 'the kernel does not have it' : `it cannot be set to ${value} (${code})`
    return [{ what: `sysctl ${name}`, module: '', effect: `${effect}: ${reason}`, severity }]
  }
}
