/** The Services that the rest of the cluster needs before it can work. */
import type { Service } from '../service/objects.ts'

/** `default/kubernetes`, and every Service in kube-system that answers DNS. */
export function isNeededFirst(service: Service): boolean {
  if (service.namespace === 'default') return service.name === 'kubernetes'
  return service.namespace === 'kube-system' && service.ports.some((port) => port.port === 53)
}
