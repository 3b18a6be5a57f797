/** Checks of the kernel and of programs: what is missing, versions with known defects, the clock. */
import { moduleCommands } from '../../node/module-remedy.ts'
import { modulesAtBoot } from '../../node/needs.ts'
import type { NodeFacts } from '../facts.ts'
import { type Check, type CheckResult, FINE, type Finding, found, valueOr, when } from '../finding.ts'
import { quote } from '../../values/quote.ts'
import { firewallOf } from './node-firewall.ts'

function modules(facts: NodeFacts): CheckResult {
  const { lacks, ipvs, kernel, configuration } = facts
  const expected = modulesAtBoot(configuration.scheduler, firewallOf(facts))
  // Without rights the kernel says no more than whether it has IPVS.
  if ('unseen' in lacks && configuration.mode === 'ipvs' && 'value' in ipvs && ipvs.value === null)
    return {
      findings: [
        {
          severity: 'error',
          what: 'The kernel has no IPVS (module ip_vs).',
          effect: 'ipvs mode does not work on this node.',
          remedy: moduleCommands(['ip_vs'], expected.filter(isModule), kernel),
        },
      ],
      unseen: lacks.unseen,
    }
  return when(lacks, (all) => {
    // Settings have a check of their own.
    const missing = all.filter(({ what }) => !what.startsWith('sysctl '))
    const names = missing.flatMap(({ module }) => module.split(' '))
    const atBoot = [...new Set([...expected, ...names])].filter(isModule)
    return found(
      ...missing.map(({ what, module, effect, severity }): Finding => {
        const own = module.split(' ').filter(isModule)
        return {
          severity: configuration.mode !== 'ipvs' ? 'note' : severity === 'warning' ? 'warning' : 'error',
          what: `Missing: ${what}${module === '' ? '' : ` (module ${module})`}.`,
          effect: `${effect}${what === 'IPVS' && configuration.fallback !== 'none' ? '; the daemon starts in iptables mode' : ''}.`,
          remedy: own.length === 0 ? [] : moduleCommands(own, atBoot, kernel),
        }
      }),
    )
  })
}

/** What modprobe may get, the families of modules that a proxy needs: a bundle could name anything. */
const isModule = (name: string): boolean =>
  /^(?:ip_vs|ip_set|ip_tables|ip6_tables|iptable_|ip6table_|xt_|nf_|nft_|dummy$)\w{0,50}$/.test(name)

/** Major and minor number of a release: `6.1.0-18-amd64` is [6, 1]. */
function versionOf(release: string): readonly [major: number, minor: number] {
  const [major = 0, minor = 0] = release.split('.').map((part) => Number.parseInt(part, 10) || 0)
  return [major, minor]
}

const isBefore = (release: string, major: number, minor: number): boolean => {
  const [thisMajor, thisMinor] = versionOf(release)
  return thisMajor < major || (thisMajor === major && thisMinor < minor)
}

/** From this many virtual servers on the statistics timer of old kernels is noticeable. */
const MANY_VIRTUAL_SERVERS = 5000

function kernelVersion({ kernel: { release }, configuration, ipvs }: NodeFacts): CheckResult {
  if (configuration.mode !== 'ipvs') return FINE
  const findings: Finding[] = []
  const virtualServers = valueOr(ipvs, null)?.virtualServers ?? 0
  if (isBefore(release, 6, 2))
    findings.push({
      severity: virtualServers >= MANY_VIRTUAL_SERVERS ? 'warning' : 'note',
      what: `Kernel ${quote(release)} is older than 6.2: one timer updates the statistics of all virtual servers every 2 s.`,
      effect: `With tens of thousands of real servers packets wait more than 100 ms for it; this node has ${virtualServers} virtual servers.`,
      remedy: ['# a kernel from 6.2 on, which does this in threads of its own'],
    })
  if (isBefore(release, 5, 9) && !isBefore(release, 4, 1))
    findings.push({
      severity: 'note',
      what: `Kernel ${quote(release)} is older than 5.9: with conn_reuse_mode 1 a connection that reuses a port waits a second.`,
      effect:
        'kube-ipvs sets conn_reuse_mode to 0 on these kernels; then new connections may still reach an endpoint that drains.',
      remedy: ['# a kernel from 5.9 on, where the default is right'],
    })
  return found(...findings)
}

function ipvsSctp({ ipvs, ipvsSctp: hasSctp, configuration }: NodeFacts): CheckResult {
  const table = valueOr(ipvs, null)
  if (configuration.mode !== 'ipvs' || table === null) return FINE
  return when(hasSctp, (isThere) => {
    if (isThere) return FINE
    const { sctpServers } = table
    return found({
      severity: sctpServers > 0 ? 'error' : 'note',
      what: `IPVS of this kernel does not know SCTP (CONFIG_IP_VS_PROTO_SCTP)${sctpServers > 0 ? `, and ${sctpServers} virtual server${sctpServers === 1 ? ' is' : 's are'} for SCTP` : ''}.`,
      effect: 'The kernel accepts virtual servers for SCTP, and forwards no packet of them.',
      remedy: ['# a kernel whose IPVS has SCTP; iptables mode does not need it'],
    })
  })
}

function iptablesVersion({ iptables }: NodeFacts): CheckResult {
  return when(iptables, ({ backEnd, version }) => {
    if (backEnd === null) return FINE
    if (version === null) return { findings: [], unseen: 'iptables --version prints no version' }
    const [major = 0, minor = 0, patch = 0] = version.split('.').map((part) => Number.parseInt(part, 10) || 0)
    const number = (major * 1000 + minor) * 1000 + patch
    const upgrade = ['apt-get install --only-upgrade iptables', '# or: dnf upgrade iptables-nft']
    if (number < 1_006_002)
      return found({
        severity: 'warning',
        what: `iptables ${quote(version)} is older than 1.6.2.`,
        effect:
          'It has neither --random-fully nor a lock that waits: masqueraded connections may be lost when two begin at once.',
        remedy: upgrade,
      })
    if (backEnd === 'nft' && number < 1_008_003)
      return found({
        severity: 'warning',
        what: `iptables ${quote(version)} has the first releases of the nft back end.`,
        effect: 'Before 1.8.3 it may print and restore rules of other programs wrongly.',
        remedy: upgrade,
      })
    return FINE
  })
}

function iptablesPrograms(facts: NodeFacts): CheckResult {
  // The nftables firewall needs none.
  if (firewallOf(facts) === 'nftables') return FINE
  return when(facts.iptables, ({ backEnd, reason }) =>
    backEnd === null
      ? found({
          severity: 'error',
          what: `The rules of iptables cannot be written: ${quote(reason)}.`,
          effect: 'Nothing is masqueraded, and source ranges have no effect.',
          remedy: ['apt-get install iptables', '# or: dnf install iptables-nft'],
        })
      : FINE,
  )
}

/** Above this the API server refuses some tokens, and lines of logs no longer fit together. */
const SKEW_WARNING_SECONDS = 10
const SKEW_ERROR_SECONDS = 300

function clock({ clock: local, cluster }: NodeFacts): CheckResult {
  const remedy = [
    'systemctl enable --now systemd-timesyncd',
    '# or: systemctl enable --now chronyd',
    'timedatectl status',
  ]
  const ahead = valueOr(cluster, undefined)?.clockAheadSeconds ?? 0
  const skew = Math.abs(ahead)
  const findings: Finding[] = []
  if (skew >= SKEW_WARNING_SECONDS)
    findings.push({
      severity: skew >= SKEW_ERROR_SECONDS ? 'error' : 'warning',
      what: `The clock of this node is ${Math.round(skew)} s ${ahead > 0 ? 'ahead of' : 'behind'} that of the API server.`,
      effect:
        'Certificates and tokens may count as expired or not yet valid; the latency metrics of the proxy are wrong.',
      remedy,
    })
  return when(local, ({ isSynchronized }) => {
    if (!isSynchronized)
      findings.push({
        severity: 'note',
        what: 'The kernel does not know its clock to be synchronized.',
        effect: 'The clock drifts; this matters for certificates, tokens and the latency metrics.',
        remedy,
      })
    return found(...findings)
  })
}

export const KERNEL_CHECKS: readonly Check[] = [
  { id: 'kernel-modules', group: 'kernel', good: 'the kernel has everything that ipvs mode needs', check: modules },
  { id: 'kernel-version', group: 'kernel', good: 'no known defect of IPVS in this kernel', check: kernelVersion },
  { id: 'ipvs-sctp', group: 'kernel', good: 'IPVS of this kernel knows SCTP', check: ipvsSctp },
  {
    id: 'iptables-programs',
    group: 'kernel',
    good: 'iptables is installed and works, or is not needed',
    check: iptablesPrograms,
  },
  { id: 'iptables-version', group: 'kernel', good: 'no known defect in this iptables', check: iptablesVersion },
  { id: 'clock', group: 'kernel', good: 'the clock is synchronized', check: clock },
]
