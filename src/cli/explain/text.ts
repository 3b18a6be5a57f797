/** The text of `kube-ipvs explain`. Lines fit into the terminal; only commands and names are never broken. */
import { annotationField } from '../../service/annotations.ts'
import { formatProblem } from '../../values/errors.ts'
import { printable, quote } from '../../values/quote.ts'
import type { Page } from '../../start/output.ts'
import type {
  ExplainedEndpoint,
  ExplainedFrontend,
  ExplainedPort,
  ExplainedService,
  Explanation,
  KernelFrontend,
} from './explanation.ts'
import { objectLines } from './object-text.ts'
import { hanging, labelled, type Paper } from '../paper.ts'
import { pathLines } from './path-text.ts'
import { relayLines } from './relay-text.ts'
import type { VerdictWords } from './verdicts.ts'

const [NARROWEST, USUAL, WIDEST] = [20, 80, 120]

/** The lines of an explanation. */
export function explanationText(explanation: Explanation, { style, columns = USUAL }: Page): string[] {
  const paper: Paper = { style, width: Math.min(WIDEST, Math.max(NARROWEST, columns)) }
  const { services, kernel, unknown, paths } = explanation
  return [
    ...headline(explanation, paper),
    ...unknown.flatMap((text) => hanging('', text, paper).map((line) => style('yellow', line))),
    ...services.flatMap((service) => ['', ...serviceLines(service, explanation, paper)]),
    ...kernel.flatMap((frontend) => ['', ...kernelLines(frontend, paper)]),
    ...paths.flatMap((path) => ['', ...pathLines(path, explanation, paper)]),
  ]
}

function headline(
  { target, services, kernel, isFound, nearest, mode, node, source }: Explanation,
  paper: Paper,
): string[] {
  const { style } = paper
  const shown = quote(target)
  if (!isFound) {
    const guess = nearest.length === 0 ? '' : ` Did you mean ${nearest.map(printable).join(', ')}?`
    return hanging('', `${shown} is no frontend of a Service on this node.${guess}`, paper).map((line) =>
      style(['red', 'bold'], line),
    )
  }
  const place = node.name === '' ? 'this node' : `node ${printable(node.name)}`
  const names = services.map(({ namespace, name }) => `${namespace}/${name}`)
  const what =
    names.length > 0 ? names.join(', ') : `${kernel.length} frontend${kernel.length === 1 ? '' : 's'} in the kernel`
  const about = [
    ...(mode === null ? [] : [`${mode} mode`]),
    ...(node.zone === null || node.zone === '' ? [] : [`zone ${printable(node.zone)}`]),
    ...(source === '' ? [] : [`known from ${printable(source)}`]),
  ]
  return [
    ...hanging('', `${what} on ${place}`, paper).map((line) => style('bold', line)),
    ...(about.length === 0 ? [] : hanging('', about.join(', '), paper).map((line) => style('dim', line))),
  ]
}

function serviceLines(service: ExplainedService, explanation: Explanation, paper: Paper): string[] {
  const { annotations, problems, ports, omitted } = service
  const { style } = paper
  const title = `Service ${service.namespace}/${service.name}`
  const fields = new Set(annotations.map(({ name }) => annotationField(name)))
  return [
    style('bold', title),
    ...annotations.flatMap(({ name, value, isInForce, because }) =>
      labelled(
        'annotation',
        `${name}: ${quote(value)}${isInForce ? '' : `, not in force: ${printable(because)}`}`,
        paper,
        isInForce ? undefined : 'yellow',
      ),
    ),
    ...problems
      .filter(({ field }) => !fields.has(field ?? ''))
      .flatMap((problem) => labelled('problem', printable(formatProblem(problem)), paper, 'yellow')),
    ...(omitted === 0
      ? []
      : labelled('left out', `${omitted} endpoints and frontends, because there are too many`, paper, 'yellow')),
    ...relayLines(service, explanation, paper),
    ...ports.flatMap((port) => ['', ...portLines(port, explanation, paper)]),
  ]
}

function portLines(port: ExplainedPort, explanation: Explanation, paper: Paper): string[] {
  const { style } = paper
  const { affinityTimeoutSeconds: affinity, healthCheckNodePort } = port
  return [
    ...hanging(
      '',
      `Port ${port.name.split(':')[1] ?? port.port}, ${port.port}/${port.protocol}, ${port.family}`,
      paper,
    ).map((line) => style('bold', line)),
    ...(port.frontends.every(({ verdicts }) => verdicts === 'external')
      ? []
      : labelled('cluster IP', `internal traffic policy ${port.internalPolicy}`, paper)),
    ...(port.frontends.every(({ verdicts }) => verdicts === 'internal')
      ? []
      : labelled('other addresses', `external traffic policy ${port.externalPolicy}`, paper)),
    ...(affinity === 0
      ? []
      : labelled('affinity', `a client keeps its endpoint for ${affinity} s after its last connection`, paper)),
    ...(healthCheckNodePort === 0
      ? []
      : labelled(
          'health check',
          `port ${healthCheckNodePort} of this node tells load balancers whether it has endpoints`,
          paper,
        )),
    ...endpointLines(port, paper),
    ...port.frontends.flatMap((frontend) => frontendLines(frontend, port, explanation, paper)),
    ...(port.objects.length === 0
      ? []
      : ['', style('bold', 'Rules of this port'), ...objectLines(port.objects, paper)]),
  ]
}

/** Endpoints with the same reason that are printed one by one. */
const MAX_ALIKE = 20

const NO_ENDPOINTS =
  'none: no EndpointSlice of the Service has an endpoint of this port; objects of kind Endpoints are not read, the control plane makes slices of them'

function endpointLines({ endpoints, frontends }: ExplainedPort, paper: Paper): string[] {
  const { style } = paper
  if (endpoints.length === 0) return labelled('endpoints', NO_ENDPOINTS, paper, 'yellow')
  const kinds = new Set(frontends.map(({ verdicts }) => verdicts))
  const lines = ['', style('bold', 'Endpoints')]
  const groups = Map.groupBy(endpoints, (endpoint) =>
    reasonsOf(endpoint, kinds)
      .map(({ text }) => text)
      .join('\n'),
  )
  for (const group of groups.values()) {
    for (const { key, node, isLocal } of group.slice(0, MAX_ALIKE)) {
      const place = isLocal ? 'on this node' : node === '' ? 'on no known node' : `on node ${printable(node)}`
      lines.push(...hanging('  ', `${key} ${place}`, paper))
    }
    if (group.length > MAX_ALIKE) lines.push(`  and ${group.length - MAX_ALIKE} more`)
    const [first] = group
    for (const { text, isUsed } of first === undefined ? [] : reasonsOf(first, kinds))
      lines.push(...hanging('    ', text, paper).map((line) => style(isUsed ? 'green' : 'yellow', line)))
  }
  return lines
}

interface Reason {
  readonly text: string
  readonly isUsed: boolean
}

/** One reason, or two where the cluster IP and other addresses differ. */
function reasonsOf(
  { internal, external }: ExplainedEndpoint,
  kinds: ReadonlySet<'internal' | 'external'>,
): readonly Reason[] {
  const reason = ({ isUsed, because, rule }: VerdictWords, about: string): Reason => ({
    text: `${isUsed ? 'used' : 'not used'}${about}: ${because} [${rule}]`,
    isUsed,
  })
  if (!kinds.has('external')) return [reason(internal, '')]
  if (!kinds.has('internal') || (internal.because === external.because && internal.verdict === external.verdict))
    return [reason(external, '')]
  return [reason(internal, ' for the cluster IP'), reason(external, ' for other addresses')]
}

const ROLE = {
  ClusterIP: 'cluster IP',
  NodePort: 'node port',
  LoadBalancerVip: 'load-balancer address',
  ExternalIP: 'external IP',
} as const

function frontendLines(
  frontend: ExplainedFrontend,
  port: ExplainedPort,
  explanation: Explanation,
  paper: Paper,
): string[] {
  const { key, roles, owner, others, isWon, sourceRanges, objects } = frontend
  const { style } = paper
  const used = port.endpoints.filter((endpoint) => endpoint[frontend.verdicts].isUsed).length
  const policy = frontend.verdicts === 'internal' ? port.internalPolicy : port.externalPolicy
  const title = `${placeWords(key)}, ${roles.map((role) => ROLE[role]).join(' and ')}`
  return [
    '',
    ...hanging('', title, paper).map((line) => style('bold', line)),
    ...(isWon
      ? labelled(
          'endpoints',
          `${used} of ${port.endpoints.length}, policy ${policy}${used === 0 ? ': connections are not served' : ''}`,
          paper,
          used === 0 ? 'yellow' : undefined,
        )
      : labelled(
          'owner',
          `${printable(owner)} has won this address and port. The order is cluster IP or node port, then load-balancer address, ` +
            'then external IP; among equals the older Service wins. This Service gets no traffic here',
          paper,
          'red',
        )),
    ...(isWon && others.length > 0
      ? labelled('also claimed by', `${others.map(printable).join(', ')}: they get no traffic here`, paper, 'yellow')
      : []),
    ...(sourceRanges === null
      ? []
      : labelled('source ranges', `${sourceRanges.join(', ')}; other clients are dropped`, paper)),
    ...(explanation.mode === 'ipvs' && isWon && !frontend.isBound && !roles.every((role) => role === 'NodePort')
      ? labelled('address', 'it is on another interface of this node, so kube-ipvs does not add it', paper)
      : []),
    ...objectLines(objects, paper),
  ]
}

/** `*:30080/tcp` means every address of the node. */
function placeWords(key: string): string {
  return key.startsWith('*:') || key.startsWith('[*]:')
    ? `${key} (every address of this node that has node ports)`
    : key
}

function kernelLines({ key, servicePort, objects, endpoints }: KernelFrontend, paper: Paper): string[] {
  const { style } = paper
  return [
    style('bold', placeWords(key)),
    ...(servicePort === null ? [] : labelled('Service port', printable(servicePort), paper)),
    ...endpoints.flatMap((endpoint) => labelled('endpoint', endpoint, paper)),
    ...objectLines(objects, paper),
  ]
}
