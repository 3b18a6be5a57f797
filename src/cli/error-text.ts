/**
 * What went wrong and what to do next, for people who type commands. The daemon's own lines keep kube-proxy's words; a
 * terminal gets the next step after them.
 */
import { CodedError } from '../values/errors.ts'
import type { FlagValues } from './flags.ts'

/** Of a command other than the daemon: which flag or field it is about, and the reason. */
export function errorText(error: unknown, { config }: FlagValues): string {
  if (!(error instanceof CodedError)) return error instanceof Error ? (error.stack ?? error.message) : String(error)
  const { code, message } = error
  if (code === 'kubeconfig') return `kubeconfig: ${message}`
  if (!code.startsWith('config-')) return message
  const reason = message.replace(/^failed (complete|validate): /, '')
  if (config === undefined || config === '') return reason
  const about = `--config ${config}`
  return `${about}: ${reason.replace(`open ${config}: `, '').replace(`read ${config}: `, '')}`
}

/** What helps, where the message does not say; undefined when it does. */
export function nextStep(error: unknown): string | undefined {
  switch (error instanceof CodedError ? error.code : undefined) {
    case 'EPERM':
    case 'EACCES':
      return NEEDS_RIGHTS
    case 'no-api-server':
      return 'Name a cluster with --config or --kubeconfig, or a folder of manifests with --manifests.'
    case 'kubeconfig':
      return 'The kubeconfig is named by --kubeconfig, or by clientConnection.kubeconfig in the file of --config.'
    case 'config-decode':
      return 'The file must hold a KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1, as YAML or JSON.'
    case 'config-unreadable':
      return '--config names a KubeProxyConfiguration file; without it the flags and their defaults count.'
    default:
      return undefined
  }
}

export const NEEDS_RIGHTS = 'This takes root, or the capability NET_ADMIN in the network namespace of the host.'
