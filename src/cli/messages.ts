/**
 * What the program prints outside its commands: its version, mistakes in the command line, and
 * failures with the next step. The daemon's own lines keep kube-proxy's words; a terminal gets the
 * next step after them.
 */
import { CodedError } from '../values/errors.ts'
import { printable } from '../values/quote.ts'
import { KUBE_PROXY_RELEASE, VERSION } from '../values/well-known.ts'
import { programOf, type UsageError } from '../start/command-line.ts'
import type { FlagValues } from '../start/flags.ts'

/**
 * What `--version` prints: one line with the version and the release of kube-proxy that the program
 * follows; `raw` says what that means.
 */
export function versionText(kind: 'true' | 'raw'): string {
  return kind === 'true'
    ? `kube-ipvs v${VERSION} (kube-proxy ${KUBE_PROXY_RELEASE.version})\n`
    : `kube-ipvs v${VERSION}, with the flags and the configuration of kube-proxy ${KUBE_PROXY_RELEASE.version}\n`
}

/**
 * Answers a wrong command line: how to call the program, what was probably meant, and the mistake
 * in the words of kube-proxy, last so that it stays on the screen. kube-proxy prints all of its
 * help here; it fills a screen, so we name the way to it.
 */
export function usageErrorText({ command, message, showUsage, suggestion }: UsageError): string {
  const error = `Error: ${message}\n`
  const hint = suggestion === undefined ? '' : `Did you mean ${suggestion}?\n`
  if (!showUsage) return hint === '' ? error : `${hint}\n${error}`
  const program = programOf(command)
  return `Usage:\n  ${program} [flags]\n  ${program} --help lists the flags.\n${hint === '' ? '' : `  ${hint}`}\n${error}`
}

/** Why a command other than the daemon failed: the flag or field that it is about, and the reason. */
export function failureText(error: unknown, { config }: FlagValues): string {
  if (!(error instanceof CodedError)) return error instanceof Error ? (error.stack ?? error.message) : String(error)
  const { code } = error
  // One line, whatever a file, a program or a server has put into the reason.
  const message = printable(error.message)
  if (code === 'kubeconfig') return `kubeconfig: ${message}`
  if (!code.startsWith('config-')) return message
  const reason = message.replace(/^failed (complete|validate): /, '')
  if (config === undefined || config === '') return reason
  const about = `--config ${config}`
  return `${about}: ${reason.replace(`open ${config}: `, '').replace(`read ${config}: `, '')}`
}
