/** The check of an API server that does not answer: what to look at next, by the error and by where its address leads. */
import type { ApiServerFact } from '../cluster-facts.ts'
import type { NodeFacts } from '../facts.ts'
import { type Check, type CheckResult, FINE, found } from '../finding.ts'
import { quote } from '../../values/quote.ts'

function apiServer({ apiServer: fact }: NodeFacts): CheckResult {
  if (fact === null) return FINE
  const { server, reason } = fact
  if (server === '')
    // The proxy may know it all the same, for example in its Pod.
    return found({
      severity: 'note',
      what: `doctor does not know the API server: ${quote(reason)}.`,
      effect: 'The checks of the cluster could not be made.',
      remedy: ['# clientConnection.kubeconfig in the KubeProxyConfiguration, or --kubeconfig, names its file'],
    })
  return found({
    severity: 'warning',
    what: `The API server ${quote(server)} does not answer as it should: ${quote(reason)}.`,
    effect: `${EFFECT}${ofPlace(fact)}`,
    remedy: remedyOf(fact),
  })
}

const EFFECT =
  'What the kernel has is served, but no change of a Service arrives while a proxy gets the same answer, and the checks of the cluster could not be made.'

function ofPlace({ place }: ApiServerFact): string {
  switch (place) {
    case 'virtual-server':
      return ' Its address is that of a Service, so this node sends the request to the endpoints that its virtual server has.'
    case 'virtual-ip':
      return ' Its address is a virtual IP of this node without a virtual server for this port, so the node asks itself.'
    case 'here':
      return ' Its address is one of this node.'
    default:
      return ''
  }
}

/** No answer to a connection, or none in time. */
const NO_WAY: ReadonlySet<string> = new Set([
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'deadline',
  'api-silent',
  'ECONNRESET',
])
const NO_NAME: ReadonlySet<string> = new Set(['ENOTFOUND', 'EAI_AGAIN'])
const OF_TLS = /^(?:ERR_TLS|CERT_|ERR_SSL|DEPTH_|SELF_|UNABLE_|EPROTO)/

/** Text of the node is part of a command only where it is a plain URL. */
function remedyOf(fact: ApiServerFact): readonly string[] {
  const { code, place } = fact
  const { url, host } = placesIn(fact)
  if (OF_TLS.test(code)) return WRONG_CERTIFICATE
  if (NO_NAME.has(code)) return [`getent hosts ${host}`, ...NO_RESOLVER]
  if (place === 'virtual-server')
    return [
      `kube-ipvs status --address ${host}`,
      '# and of each endpoint that it lists:',
      'curl -k https://ENDPOINT/livez',
      ...OWN_WAY,
    ]
  if (place === 'virtual-ip')
    return [
      `kube-ipvs status --address ${host}`,
      '# the Service that has this address, from another machine',
      `kubectl get services -A -o wide | grep ${host}`,
      ...OWN_WAY,
    ]
  if (place === 'here')
    return [
      'ss -ltnp',
      'crictl ps -a --name kube-apiserver',
      '# or what stands in front of it on this node: a load balancer, the agent of k3s or RKE2',
    ]
  return [
    `curl -k ${url}/livez`,
    ...(NO_WAY.has(code)
      ? [`ip route get ${host}`, '# and the firewalls between, on this node too: "kube-ipvs doctor" names those here']
      : ['# from another node as well: if it is refused there too, kube-apiserver or its load balancer is down']),
  ]
}

const URL_OF_SERVER = /^https?:\/\/(?<host>[\w.-]{1,253}|\[[\da-f:.]{2,45}\])(?::\d{1,5})?$/

/** For commands: of a plain URL, else words in capitals. */
function placesIn({ server }: Pick<ApiServerFact, 'server'>): { readonly url: string; readonly host: string } {
  const host = URL_OF_SERVER.exec(server)?.groups?.['host']
  return host === undefined
    ? { url: 'https://API-SERVER', host: 'API-SERVER' }
    : { url: server, host: host.replace(/^\[|\]$/g, '') }
}

const WRONG_CERTIFICATE: readonly string[] = [
  '# certificate-authority of the kubeconfig has to be that of the cluster, and the address or name of "server" in the certificate of the API server',
  'openssl s_client -connect API-SERVER:6443 -showcerts </dev/null',
  '# and the clock of this node',
  'date -u',
]
const NO_RESOLVER: readonly string[] = [
  '# a resolver that is a Service of this cluster answers only while a proxy works: /etc/resolv.conf needs another one, or the kubeconfig an address',
]
const OWN_WAY: readonly string[] = [
  '# clientConnection.kubeconfig should name an address that leads to the API server without any Service',
]

export const API_SERVER_CHECKS: readonly Check[] = [
  { id: 'api-server', group: 'daemon', good: 'the API server answers', check: apiServer },
]
