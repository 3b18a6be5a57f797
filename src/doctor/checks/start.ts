/** Checks of the configuration, of the rights to look, and of what a start would change here. */
import type { NodeFacts } from '../facts.ts'
import { type Check, type CheckResult, FINE, found, when } from '../finding.ts'
import { printable, quote } from '../../values/quote.ts'

function configuration({ configuration: { from, error } }: NodeFacts): CheckResult {
  if (error === null) return FINE
  return found({
    severity: 'error',
    what: `The configuration ${quote(from)} is refused: ${printable(error)}`,
    effect:
      'kube-ipvs ends at its start, and a running one keeps the configuration that it has. The other checks used the defaults.',
    remedy: ['# the fields and their values: docs/configuration.md'],
  })
}

function rights({ netAdmin }: NodeFacts): CheckResult {
  if (netAdmin) return FINE
  return found({
    severity: 'note',
    what: 'doctor has no capability NET_ADMIN.',
    effect: 'It cannot read virtual servers, sets and rules, nor ask the kernel what it lacks.',
    remedy: ['sudo kube-ipvs doctor'],
  })
}

function runningProxy({ configuration: { mode }, runningMode }: NodeFacts): CheckResult {
  if (runningMode === null || runningMode === mode) return FINE
  return found({
    severity: 'warning',
    what: `A proxy in ${quote(runningMode)} mode runs here, and ${mode} mode is configured.`,
    effect:
      'Either the proxy started before the configuration was changed, or it fell back because the kernel lacks something, or it is another proxy.',
    remedy: ['kube-ipvs status', 'kubectl -n kube-system rollout restart daemonset kube-ipvs'],
  })
}

/** Most commands that the text of the finding has; bundles and JSON have more. */
const SHOWN = 10

function startChanges({ changes, runningMode }: NodeFacts): CheckResult {
  return when(changes, ({ count, commands }) => {
    if (count === 0) return FINE
    const shown = commands.slice(0, SHOWN).map(printable)
    const rest = count - shown.length
    return found({
      severity: runningMode === null ? 'note' : 'warning',
      what:
        runningMode === null
          ? `A start makes ${count} change${count === 1 ? '' : 's'}.`
          : `The kernel differs from what the Services need: ${count} change${count === 1 ? '' : 's'}, although a proxy runs.`,
      effect: 'These are the commands of the first pass, in order. "kube-ipvs diff" prints all of them.',
      remedy: [...shown.map((command) => `# ${command}`), ...(rest > 0 ? [`# and ${rest} more`] : [])],
    })
  })
}

export const START_CHECKS: readonly Check[] = [
  { id: 'configuration', group: 'start', good: 'the configuration is accepted', check: configuration },
  { id: 'rights', group: 'start', good: 'doctor has the rights to see everything', check: rights },
  { id: 'running-mode', group: 'start', good: 'a proxy that runs is in the configured mode', check: runningProxy },
  { id: 'start-changes', group: 'start', good: 'a start changes nothing', check: startChanges },
]
