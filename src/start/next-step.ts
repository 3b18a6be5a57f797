/** What an operator can do about a failure. */
import { CodedError } from '../values/errors.ts'

export const NEEDS_RIGHTS = 'This takes root, or the capability NET_ADMIN in the network namespace of the host.'

/** What helps, where the message does not say it; otherwise undefined. */
export function nextStep(error: unknown): string | undefined {
  if (error instanceof CodedError && error.advice !== undefined) return error.advice
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
    case 'deadline':
      return 'This node or its kernel answers slowly. Look at its load, and run the command again.'
    default:
      return undefined
  }
}
