/** Runs every check over the facts of a node: the diagnosis, as `doctor --output json` prints it. */
import { API_SERVER_CHECKS } from './checks/api-server.ts'
import { DAEMON_CHECKS } from './checks/daemon.ts'
import { FOREIGN_RULE_CHECKS } from './checks/foreign-rules.ts'
import { KERNEL_CHECKS } from './checks/kernel.ts'
import { NETWORK_CHECKS } from './checks/network.ts'
import { PATH_CHECKS } from './checks/paths.ts'
import { PROXY_CHECKS } from './checks/proxies.ts'
import { RULE_CHECKS } from './checks/rules.ts'
import { SETTING_CHECKS } from './checks/settings.ts'
import { START_CHECKS } from './checks/start.ts'
import type { NodeFacts } from './facts.ts'
import type { Check, Finding, FindingSeverity, Group } from './finding.ts'

/** In the order of the report. */
export const CHECKS: readonly Check[] = [
  ...DAEMON_CHECKS,
  ...API_SERVER_CHECKS,
  ...PROXY_CHECKS,
  ...KERNEL_CHECKS,
  ...SETTING_CHECKS,
  ...NETWORK_CHECKS,
  ...RULE_CHECKS,
  ...PATH_CHECKS,
  ...FOREIGN_RULE_CHECKS,
  ...START_CHECKS,
]

/** What one check says: its findings, or that all is well, or that it could not see enough (`unknown`). */
export interface CheckReport {
  readonly id: string
  readonly group: Group
  readonly severity: FindingSeverity | 'ok' | 'unknown'
  /** What is right when there is no finding. */
  readonly good: string
  readonly findings: readonly Finding[]
  /** Why something could not be seen; null: everything was. */
  readonly unseen: string | null
  /** Page and anchor that explain the check. */
  readonly docs: string
}

export interface Diagnosis {
  readonly nodeName: string
  readonly collectedAt: string
  /** Version that collected the facts. */
  readonly program: string
  readonly mode: string
  readonly kernel: string
  /** The worst of all findings. */
  readonly severity: FindingSeverity | 'ok'
  readonly checks: readonly CheckReport[]
}

const RANK: Readonly<Record<CheckReport['severity'], number>> = { error: 4, warning: 3, note: 2, unknown: 1, ok: 0 }

export function diagnose(facts: NodeFacts): Diagnosis {
  const checks = CHECKS.map((check) => reportOf(check, facts))
  const worst = checks.map(({ severity }) => severity).reduce((a, b) => (RANK[a] >= RANK[b] ? a : b), 'ok')
  return {
    nodeName: facts.nodeName,
    collectedAt: facts.collectedAt,
    program: facts.program,
    mode: facts.configuration.mode,
    kernel: facts.kernel.release,
    severity: worst === 'unknown' ? 'ok' : worst,
    checks,
  }
}

function reportOf({ id, group, good, check }: Check, facts: NodeFacts): CheckReport {
  const { findings, unseen = null } = check(facts)
  const sorted = findings.toSorted((a, b) => RANK[b.severity] - RANK[a.severity])
  const severity = sorted[0]?.severity ?? (unseen === null ? 'ok' : 'unknown')
  return { id, group, severity, good, findings: sorted, unseen, docs: `docs/doctor.md#${id}` }
}

/** 0: fine, or only notes; 1: warnings; 2: errors. Scripts depend on them. */
export function exitCodeOf({ severity }: Diagnosis): number {
  return severity === 'error' ? 2 : severity === 'warning' ? 1 : 0
}
