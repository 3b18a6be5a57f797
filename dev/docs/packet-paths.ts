/**
 * The drawings of docs/packet-paths.md as tables of steps. The test test/dev/packet-paths.test.ts compares the files in
 * docs/packet-paths with them, and rewrites them with `UPDATE_GOLDEN=1`.
 */
import type { Drawing, Step } from './flow-drawing.ts'

const MASQUERADE: Step = {
  kind: 'nat',
  title: 'Source address',
  place: 'nat POSTROUTING',
  paragraphs: [
    '`KUBE-POSTROUTING` gives a packet with the mark an address of this node as its source. All others keep theirs.',
  ],
}

const SEES: Step = {
  kind: 'end',
  title: 'Endpoint',
  paragraphs: ['Sees the address of this node, or the address of the client if the packet was not marked.'],
}

const ANSWERS: Step = {
  kind: 'end',
  title: 'Endpoint',
  paragraphs: ['Answers to the source that it saw. The answer has to return through this node.'],
}

const UNMASQUERADED_ANSWER: Step = {
  kind: 'kernel',
  title: 'Masquerading is undone',
  place: 'PREROUTING',
  paragraphs: ['conntrack makes the client the destination again.'],
}

const FORWARDED_ANSWER: Step = {
  kind: 'filter',
  title: 'Forwarding',
  place: 'filter FORWARD',
  paragraphs: ['`KUBE-FORWARD` accepts packets of established connections, also on nodes that forward nothing else.'],
}

/** By the name of the file in docs/packet-paths, without `.svg`. */
export const PACKET_PATHS: Readonly<Record<string, Drawing>> = {
  'ipvs-mode': {
    title: 'A connection to a Service in ipvs mode',
    columns: [
      {
        title: 'From outside, or from a Pod',
        steps: [
          {
            kind: 'end',
            title: 'Client or Pod',
            paragraphs: [
              'Connects to the port of a Service at a VIP (cluster IP, load-balancer address or external IP), or to a node port.',
            ],
          },
          {
            kind: 'nat',
            title: 'What is masqueraded',
            place: 'nat PREROUTING',
            paragraphs: [
              '`KUBE-SERVICES` looks the destination up in sets and jumps to `KUBE-MARK-MASQ`, which sets the mark 0x4000:',
              { item: '`KUBE-CLUSTER-IP`: unless the source is a Pod, by `detectLocalMode`' },
              { item: '`KUBE-LOAD-BALANCER`: unless it is in `KUBE-LOAD-BALANCER-LOCAL`' },
              { item: '`KUBE-EXTERNAL-IP`: always; `KUBE-EXTERNAL-IP-LOCAL`: never' },
              { item: '`KUBE-NODE-PORT-TCP` and the like: unless it is in `KUBE-NODE-PORT-LOCAL-TCP`' },
            ],
          },
          {
            kind: 'kernel',
            title: 'Routing',
            paragraphs: [
              'VIPs are addresses of the device `kube-ipvs0`, or local routes, so the packet is for this node itself.',
            ],
          },
          {
            kind: 'filter',
            title: 'What is refused',
            place: 'filter INPUT',
            paragraphs: [
              { ends: 'REJECT', text: '`KUBE-IPVS-FILTER`: a VIP at a port that no Service has' },
              { ends: 'DROP', text: '`KUBE-PROXY-FIREWALL`: a source outside `loadBalancerSourceRanges`' },
              '`KUBE-NODE-PORT` accepts health-check node ports.',
            ],
          },
          {
            kind: 'ipvs',
            title: 'Virtual server',
            place: 'INPUT',
            paragraphs: [
              'The scheduler chooses a real server. The destination becomes its address and port, and the packet leaves through OUTPUT.',
              { ends: 'REJECT', text: 'the virtual server has no usable real server' },
            ],
          },
          {
            ...MASQUERADE,
            paragraphs: ['A Pod that reached itself (`KUBE-LOOP-BACK`) is masqueraded.', ...MASQUERADE.paragraphs],
          },
          SEES,
        ],
      },
      {
        title: 'From a process of this node',
        steps: [
          {
            kind: 'end',
            title: 'Process',
            paragraphs: [
              'Connects to a Service. The kernel chooses the VIP itself as the source, because it is local; with local routes it chooses the node IP.',
            ],
          },
          {
            kind: 'nat',
            title: 'What is masqueraded',
            place: 'nat OUTPUT',
            paragraphs: ['`KUBE-SERVICES` with the same sets. Packets from 127.0.0.0/8 and ::1 are left alone.'],
          },
          {
            kind: 'ipvs',
            title: 'Virtual server',
            place: 'OUTPUT',
            paragraphs: [
              'The same virtual servers and schedulers.',
              'Without one, the packet arrives at INPUT of this node, where `KUBE-IPVS-FILTER` refuses it.',
            ],
          },
          {
            kind: 'filter',
            title: 'Source ranges',
            place: 'filter OUTPUT',
            paragraphs: [
              { ends: 'DROP', text: '`KUBE-IPVS-OUT-FILTER`: source ranges of the VIP that leave out this node' },
            ],
          },
          MASQUERADE,
          {
            ...SEES,
            paragraphs: ['Sees an address of this node: without the mark, the source that the kernel chose.'],
          },
        ],
      },
      {
        title: 'The answer',
        steps: [
          ANSWERS,
          UNMASQUERADED_ANSWER,
          FORWARDED_ANSWER,
          {
            kind: 'ipvs',
            title: 'The VIP as the source',
            place: 'FORWARD',
            paragraphs: [
              'IPVS finds the connection and sets the VIP and its port as the source; for a process of this node it does so at INPUT.',
            ],
          },
          {
            kind: 'end',
            title: 'Client',
            paragraphs: ['Gets the answer from the address and port that it connected to.'],
          },
        ],
      },
    ],
  },
  'iptables-mode': {
    title: 'A connection to a Service in iptables mode',
    columns: [
      {
        title: 'From outside, or from a Pod',
        steps: [
          {
            kind: 'end',
            title: 'Client or Pod',
            paragraphs: [
              'Connects to the port of a Service at a cluster IP, load-balancer address, external IP or node port.',
            ],
          },
          {
            kind: 'nat',
            title: 'Which Service',
            place: 'nat PREROUTING',
            paragraphs: [
              '`KUBE-SERVICES` compares the destination with one rule after another:',
              { item: 'cluster IP: `KUBE-SVC-…`, which marks packets from outside the Pods' },
              { item: 'external IP or load-balancer address: `KUBE-EXT-…`' },
              { item: 'with source ranges: `KUBE-FW-…`, which lets permitted sources continue at `KUBE-EXT-…`' },
              { item: 'an address of the node: `KUBE-NODEPORTS`, then `KUBE-EXT-…`' },
              '`KUBE-EXT-…` marks with `KUBE-MARK-MASQ`, unless the external policy is Local.',
            ],
          },
          {
            kind: 'nat',
            title: 'Which endpoint',
            place: 'nat PREROUTING',
            paragraphs: [
              '`KUBE-SVC-…` (policy Cluster) or `KUBE-SVL-…` (policy Local) chooses one at random, or the one that the client used last (session affinity).',
              '`KUBE-SEP-…` sets its address and port as the destination, and marks a Pod that reached itself.',
            ],
          },
          {
            kind: 'kernel',
            title: 'Routing',
            paragraphs: ['The destination is the endpoint, so the packet is forwarded.'],
          },
          {
            kind: 'filter',
            title: 'What is refused',
            place: 'filter FORWARD',
            paragraphs: [
              { ends: 'DROP', text: '`KUBE-PROXY-FIREWALL`: a source outside `loadBalancerSourceRanges`' },
              { ends: 'DROP', text: '`KUBE-FORWARD`: state INVALID, unless connection tracking is liberal' },
              { ends: 'REJECT', text: '`KUBE-SERVICES`, `KUBE-EXTERNAL-SERVICES`: no endpoints' },
              { ends: 'DROP', text: 'the same chains: external policy Local and no local endpoint' },
              'INPUT has `KUBE-PROXY-FIREWALL` and `KUBE-EXTERNAL-SERVICES` too; there `KUBE-NODEPORTS` accepts health-check node ports.',
            ],
          },
          MASQUERADE,
          SEES,
        ],
      },
      {
        title: 'From a process of this node',
        steps: [
          {
            kind: 'end',
            title: 'Process',
            paragraphs: ['Connects to a Service, with an address of the node as the source.'],
          },
          {
            kind: 'nat',
            title: 'Service and endpoint',
            place: 'nat OUTPUT',
            paragraphs: [
              '`KUBE-SERVICES` and the chains that it jumps to, as on the left.',
              'With `iptables.localhostNodePorts` node ports also answer at 127.0.0.0/8.',
            ],
          },
          {
            kind: 'filter',
            title: 'What is refused',
            place: 'filter OUTPUT',
            paragraphs: [
              { ends: 'DROP', text: '`KUBE-FIREWALL`: packets to 127.0.0.0/8 from another address' },
              { ends: 'DROP', text: '`KUBE-PROXY-FIREWALL`: a source outside `loadBalancerSourceRanges`' },
              { ends: 'REJECT', text: '`KUBE-SERVICES`: no endpoints' },
            ],
          },
          MASQUERADE,
          SEES,
        ],
      },
      {
        title: 'The answer',
        steps: [
          ANSWERS,
          UNMASQUERADED_ANSWER,
          FORWARDED_ANSWER,
          {
            kind: 'kernel',
            title: 'The VIP as the source',
            place: 'POSTROUTING',
            paragraphs: ['conntrack sets the address and port that the client connected to as the source.'],
          },
          {
            kind: 'end',
            title: 'Client',
            paragraphs: ['Gets the answer from the address and port that it connected to.'],
          },
        ],
      },
    ],
  },
}
