/** The rows of the table of fields (fields.ts) that kube-proxy does not have: those of `kubeIPVS`. */
import { field, IN_IPVS_MODE, LIVE, LIVE_IN_IPVS_MODE, RESTART } from './field.ts'

/** In the order of the reference and of help. */
export const OWN_FIELDS = {
  'kubeIPVS.drainDeadline': field('duration', 0, RESTART, {
    doc: 'Longest time that connections may keep a draining real server; 0 means that it stays until they have ended.',
    rule: 'notNegative',
    written: 'unlessDefault',
    flag: { name: 'drain-deadline', group: 'own', appliesWithFile: true },
  }),
  // Each Service has five samples, so that 100 Services make the page of metrics about as long as kube-proxy's.
  'kubeIPVS.serviceMetricsLimit': field('int32', 100, RESTART, {
    doc: 'Largest number of Services with metrics of their own traffic (kubeipvs_service_*), in the order of their first traffic. 0: none, and the counters of the kernel are not read.',
    unit: 'Services',
    rule: 'notNegative',
    written: 'unlessDefault',
    flag: { name: 'service-metrics-limit', group: 'own', appliesWithFile: true },
  }),
  // A Service with very many frontends would delay all others.
  'kubeIPVS.maxFrontendsPerService': field('int32', 10_000, RESTART, {
    doc: 'Frontends (address, port and protocol) that a Service may have on a node, and as many source ranges at its load-balancer addresses. The rest is left out and reported.',
    unit: 'frontends',
    rule: 'positive',
    written: 'unlessDefault',
    flag: { name: 'max-frontends-per-service', group: 'own', appliesWithFile: true },
  }),
  // The memory limit of the chart holds it in both modes (docs/security-model.md has the measurements).
  'kubeIPVS.maxRealServers': field('int32', 300_000, LIVE, {
    doc: 'Real servers that all Services together may have on a node. A frontend counts as five at least, and in iptables mode each endpoint of a port as five. Namespaces share the room: the oldest Services of each are served first, and what is left out is reported.',
    unit: 'real servers',
    rule: 'positive',
    written: 'unlessDefault',
    flag: { name: 'max-real-servers', group: 'own', appliesWithFile: true },
  }),
  'kubeIPVS.allowedExternalIPs': field('optionalTexts', undefined, RESTART, {
    doc: 'Ranges that externalIPs of Services may lie in; others are refused (CVE-2020-8554). An empty list allows none.',
    defaultText: 'all addresses',
    rule: 'cidrs',
    written: 'unlessDefault',
    flag: { name: 'allowed-external-ips', group: 'own', appliesWithFile: true },
  }),
  'kubeIPVS.allowedLoadBalancerIPs': field('optionalTexts', undefined, RESTART, {
    doc: 'Ranges that load-balancer addresses of Services may lie in; others are refused. An empty list allows none.',
    defaultText: 'all addresses',
    rule: 'cidrs',
    written: 'unlessDefault',
    flag: { name: 'allowed-load-balancer-ips', group: 'own', appliesWithFile: true },
  }),
  'kubeIPVS.allowProtectedExternalIPs': field('boolean', false, RESTART, {
    doc: 'Accept externalIPs that are addresses of this node, of its gateways, of the API server, of the resolvers or of Pods, or cluster IPs of other Services. No address of the API server or of another host becomes local all the same.',
    written: 'unlessDefault',
    flag: { name: 'allow-protected-external-ips', group: 'own', appliesWithFile: true },
  }),

  // Tenants choose, so that an operator may forbid it.
  'kubeIPVS.serviceAnnotations': field('boolean', true, IN_IPVS_MODE, {
    doc: 'Services choose by annotations (kube-ipvs.io/scheduler and others, see docs/annotations.md) how they are balanced; false: their annotations have no effect.',
    written: 'unlessDefault',
    flag: { name: 'service-annotations', group: 'own', appliesWithFile: true },
  }),
  'kubeIPVS.outlierDetection': field('boolean', false, IN_IPVS_MODE, {
    doc: 'Endpoints that return no packet while others of the same Service do get no new connections for a while. A Service may choose otherwise by annotation (kube-ipvs.io/outlier-detection).',
    written: 'unlessDefault',
    flag: { name: 'outlier-detection', group: 'own', appliesWithFile: true },
  }),
  'kubeIPVS.virtualAddresses': field('text', 'addresses', LIVE_IN_IPVS_MODE, {
    doc: 'How the node answers for virtual IPs: with an address on kube-ipvs0 for each, as kube-proxy does, or with a local route for each, whose cost does not grow with their number.',
    words: ['addresses', 'routes'],
    written: 'unlessDefault',
    flag: { name: 'virtual-addresses', group: 'own', value: 'addresses|routes', appliesWithFile: true },
  }),
  'kubeIPVS.firewall': field('text', 'auto', LIVE_IN_IPVS_MODE, {
    doc: 'What masquerades, filters and refuses traffic of Services in ipvs mode: rules of iptables with ipsets, as kube-proxy has them, or tables of nf_tables of our own, for which no program is started; auto: iptables where the node has everything for it, else nftables.',
    words: ['auto', 'iptables', 'nftables'],
    written: 'unlessDefault',
    flag: { name: 'firewall', group: 'own', value: 'auto|iptables|nftables', appliesWithFile: true },
  }),
  'kubeIPVS.localhostNodePorts': field('boolean', false, LIVE_IN_IPVS_MODE, {
    doc: 'TCP node ports also answer at 127.0.0.1 and ::1 of the node, by a relay in the daemon (docs/operating.md), whatever nodePortAddresses says; also after a fallback. Iptables mode has iptables.localhostNodePorts instead.',
    written: 'unlessDefault',
    flag: { name: 'localhost-node-ports', group: 'own', appliesWithFile: true },
  }),
  'kubeIPVS.fallback': field('text', 'iptables', IN_IPVS_MODE, {
    doc: 'What to do in ipvs mode when the kernel lacks ip_vs, or what the firewall needs (ip_set or xt_set, nf_tables): start in iptables mode, or end with an error as kube-proxy does.',
    words: ['iptables', 'none'],
    written: 'unlessDefault',
    flag: { name: 'fallback', group: 'own', value: 'iptables|none', appliesWithFile: true },
  }),
  'kubeIPVS.switchBack': field('boolean', false, LIVE_IN_IPVS_MODE, {
    doc: 'After a fallback, return to ipvs mode while the program runs as soon as the kernel has everything; otherwise the next start does.',
    written: 'unlessDefault',
    flag: { name: 'switch-back', group: 'own', appliesWithFile: true },
  }),

  'kubeIPVS.socket': field('optionalText', '/run/kube-ipvs/kube-ipvs.sock', RESTART, {
    doc: 'Unix socket, for root alone, at which the daemon tells the commands status, diff, explain, top and drain what only it knows; empty: none.',
    rule: 'socketPath',
    written: 'unlessDefault',
    flag: { name: 'socket', group: 'own', value: 'PATH', appliesWithFile: true },
  }),
}
