/**
 * What only kube-ipvs knows, under the one key `kubeIPVS` of the same file. kube-proxy starts with a file that has it: it
 * logs that it does not know the field.
 * What could break: each field has a flag of its own too (src/cli/flags.ts), which counts beside --config.
 */
import * as z from 'zod'
import { block, duration, type Field, flag, int32, texts } from './field.ts'

/** As `texts`, but knows "not given" from an empty list. */
const optionalTexts = (notes: Parameters<typeof texts>[0]) => ({
  ...texts(notes),
  schema: z
    .array(z.string())
    .nullish()
    .transform((list) => list ?? undefined),
})

/** More than any Service needs; a single one with more would make all others wait. */
export const MAX_FRONTENDS = 10_000

/** With five numbers each, the page of metrics stays as long as kube-proxy's. */
export const SERVICE_METRICS_LIMIT = 100

export const kubeIpvs = block('KubeIPVSConfiguration', 'What only kube-ipvs knows.', {
  drainDeadline: duration({
    doc: 'A draining real server goes after this time even if it still has connections. 0: when they have ended.',
    default: '0s',
    rule: '0 or more',
  }),
  allowedExternalIPs: optionalTexts({
    doc: 'Ranges that externalIPs of Services may lie in; others are refused (CVE-2020-8554). Absent: all. Empty: none.',
    rule: 'CIDRs',
  }),
  allowedLoadBalancerIPs: optionalTexts({
    doc: 'Ranges that load-balancer addresses of Services may lie in; others are refused. Absent: all. Empty: none.',
    rule: 'CIDRs',
  }),
  allowProtectedExternalIPs: flag({
    doc:
      'Whether an externalIP may be an address of this node, of its default gateways, of the API server or of the ' +
      'resolvers. false: it is refused, whatever allowedExternalIPs says.',
  }),
  maxFrontendsPerService: int32(MAX_FRONTENDS, {
    doc:
      'Frontends (address, port and protocol) that a Service may have on a node, and as many source ranges at its ' +
      'load-balancer addresses, and a hundred times as many real servers. What is more is left out and reported.',
    unit: 'frontends',
    rule: '1 or more',
  }),
  serviceMetricsLimit: int32(SERVICE_METRICS_LIMIT, {
    doc:
      'Services that get metrics of their traffic of their own (kubeipvs_service_*), the first so many that have any. 0: none, and ' +
      'the kernel is not asked for its counters.',
    unit: 'Services',
    rule: '0 or more',
  }),
} satisfies Readonly<Record<string, Field>>)
