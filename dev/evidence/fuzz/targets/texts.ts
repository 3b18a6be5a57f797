/** Texts of programs and people: iptables-save, iptables-restore, the configuration, annotations, values, files of a host. */
import { isIP } from 'node:net'
import { loadConfiguration } from '../../../../src/config/load.ts'
import { parseQuantity } from '../../../../src/config/quantity.ts'
import { parseGoBool, parseGoFloat32, parseGoInt32, parseGoLevel } from '../../../../src/config/go-text.ts'
import { parseTarget, parseSource } from '../../../../src/cli/explain/target.ts'
import { parseRule } from '../../../../src/explain/rules.ts'
import {
  isPlainJump,
  canonicalRule,
  matchesOf,
  sameRules,
  setOf,
  targetOf,
} from '../../../../src/iptables/rule-text.ts'
import { findRival, portsTaken } from '../../../../src/iptables/rival-rules.ts'
import { parseFailure } from '../../../../src/iptables/restore-text.ts'
import { saveLines } from '../../../../src/iptables/save-lines.ts'
import {
  foreignReferences,
  itemsOf,
  parsePolicies,
  parsePrinted,
  parseShown,
} from '../../../../src/iptables/save-text.ts'
import { parseEntry, formatEntry } from '../../../../src/ipset/entry-text.ts'
import { savedFrontends } from '../../../../src/modes/iptables/saved-frontends.ts'
import { CLEANUP_LAYOUT, IPTABLES_LAYOUT, IPVS_LAYOUT } from '../../../../src/modes/leftovers/layouts.ts'
import { nameserversOf } from '../../../../src/node/host.ts'
import { readNetworkFile, readSysctlFile } from '../../../../src/doctor/network-file.ts'
import { portOf, rulesByHandle } from '../../../../src/doctor/read-foreign-rules.ts'
import { AnnotationReader, annotationsText } from '../../../../src/service/annotations.ts'
import { parseWeights } from '../../../../src/service/weights.ts'
import { parseAddress, parseAddressSloppy } from '../../../../src/values/address.ts'
import { formatCidr, parseCidr } from '../../../../src/values/cidr.ts'
import { parseDuration } from '../../../../src/values/duration.ts'
import { printable, printableJson, quote } from '../../../../src/values/quote.ts'
import { SERVICE_ANNOTATION } from '../../../../src/values/well-known.ts'
import { rule, type Target, unlessRefused } from '../target.ts'

const textOf = (input: Uint8Array): string => Buffer.from(input).toString()

function readSave(input: Uint8Array): void {
  const text = textOf(input)
  rule([...saveLines(text)].join('\n') === text.replace(/\n$/, ''), 'the lines are the text')
  parsePolicies(text)
  parseShown(text)
  const printed = unlessRefused(['iptables-save-truncated'], () => parsePrinted(text))
  if (printed === undefined) return
  const { tables } = printed
  for (const layout of [IPVS_LAYOUT, IPTABLES_LAYOUT, CLEANUP_LAYOUT]) {
    itemsOf(tables, layout)
    foreignReferences(tables, layout)
  }
  savedFrontends(tables, 'IPv4')
  savedFrontends(tables, 'IPv6')
  for (const table of tables.values())
    for (const [chain, rules] of table) {
      const { rival } = findRival(
        table,
        chain,
        rules.length,
        (name) => name.startsWith('KUBE-'),
        () => true,
      )
      if (rival !== undefined) portsTaken(rival.takes)
      sameRules(rules, rules.toReversed())
      for (const one of rules.slice(0, 20)) readRule(chain, one)
    }
}

function readRule(chain: string, text: string): void {
  parseRule(chain, text)
  targetOf(text)
  setOf(text)
  matchesOf(text)
  isPlainJump(text)
  const once = canonicalRule(text)
  rule(once.length <= 4 * text.length + 64, 'the canonical form is not much longer')
}

const SAVE = `*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-TCOU7JCQXEZGVUNU - [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A PREROUTING -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.0.0.1:80
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m comment --comment "kube-system/kube-dns:dns cluster IP" -m udp --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU
-A KUBE-SVC-TCOU7JCQXEZGVUNU ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p udp -m udp --dport 53 -j KUBE-MARK-MASQ
-A KUBE-SVC-TCOU7JCQXEZGVUNU -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-AAAAAAAAAAAAAAAA
-A KUBE-SEP-AAAAAAAAAAAAAAAA -p udp -m udp -j DNAT --to-destination 10.244.0.2:53
-A KUBE-SERVICES -m comment --comment "a \\"b\\" c" -m addrtype --dst-type LOCAL -m set --match-set KUBE-NODE-PORT-TCP dst -j KUBE-MARK-MASQ
COMMIT
*filter
:FORWARD DROP [1:60]
:KUBE-FORWARD - [0:0]
[1:60] -A FORWARD -m conntrack --ctstate NEW -j KUBE-FORWARD
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-FORWARD -d 10.96.0.1/32 -p tcp -m comment --comment "default/web:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
COMMIT
# Table \`raw' is incompatible, use 'nft' tool.
`
const SAVE_WORDS = [
  '-A ',
  '-j ',
  '-g ',
  '! ',
  '--comment ',
  '"',
  '\\"',
  '\n',
  'COMMIT\n',
  '*nat\n',
  ':',
  '-m ',
  '-s ',
  '-d ',
  '-p ',
  '--dport ',
  '--ctstate ',
  '--mark ',
  'KUBE-SERVICES',
  'KUBE-SVC-A',
  'KUBE-SEP-A',
  'KUBE-EXT-A',
  'KUBE-FW-A',
  'KUBE-NODEPORTS',
  'a/b',
  'cluster IP',
  'RETURN',
  'DNAT',
  '10.0.0.1/255.255.255.255',
  '0x4000/0x4000',
  'constructor',
  '[0:0]',
]

function readValues(input: Uint8Array): void {
  const text = textOf(input)
  const address = parseAddress(text)
  if (address !== undefined) {
    rule(isIP(text) !== 0 && isIP(address) !== 0, 'an address is one for Node too')
    rule(parseAddress(address) === address, 'an address is written in one way')
  } else rule(isIP(text) === 0 || text.includes('%'), 'what Node takes for an address is one')
  const sloppy = parseAddressSloppy(text)
  rule(sloppy === undefined || parseAddressSloppy(sloppy) === sloppy, 'a sloppy address is written in one way')
  const cidr = parseCidr(text)
  if (cidr !== undefined)
    rule(formatCidr(parseCidr(formatCidr(cidr)) ?? cidr) === formatCidr(cidr), 'a range is written in one way')
  parseDuration(text)
  parseQuantity(text)
  parseWeights(text)
  parseGoBool(text)
  parseGoInt32(text)
  parseGoFloat32(text)
  parseGoLevel(text)
  parseTarget(text)
  parseSource(text)
  for (const shown of [quote(text), printable(text), printableJson(text) ?? ''])
    rule(!/[\p{Cc}\u2028\u2029\u202a-\u202e]/u.test(shown), 'what is shown controls no terminal')
  for (const type of ['hash:ip', 'hash:ip,port', 'hash:ip,port,ip', 'hash:ip,port,net', 'bitmap:port'] as const)
    for (const family of ['IPv4', 'IPv6'] as const) {
      const entry = parseEntry(type, family, text)
      if (entry === undefined) continue
      rule(entry.protocol === undefined || typeof entry.protocol !== 'function', 'a protocol is a name or a number')
      const written = formatEntry(entry)
      rule(formatEntry(parseEntry(type, family, written) ?? {}) === written, 'an entry is written in one way')
    }
}

const reader = new AnnotationReader('sh', 16)
const NAMES = Object.values(SERVICE_ANNOTATION)

function readAnnotations(input: Uint8Array): void {
  const lines = textOf(input).split('\n')
  const given = annotationsText(new Map(lines.map((line, index) => [NAMES[index % NAMES.length] ?? '', line])))
  const { choices, problems } = reader.read(given)
  rule(
    problems.every(({ message }) => message.length < 1000),
    'a message about an annotation is short',
  )
  const { drainDeadlineMs = 1, slowStartMs = 1, maxConnections = 1 } = choices
  rule(drainDeadlineMs > 0 && slowStartMs >= 1 && Number.isInteger(maxConnections), 'choices are numbers')
}

function readConfiguration(input: Uint8Array): void {
  const loaded = loadConfiguration(textOf(input), 'config.yaml')
  if ('errors' in loaded) rule(loaded.errors.length > 0, 'a refusal has a reason')
}

const CONFIGURATION = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs
clusterCIDR: 10.244.0.0/16,fd00:10:244::/56
featureGates: {AllAlpha: false}
nodePortAddresses: [primary]
conntrack: {maxPerCore: 32768, tcpEstablishedTimeout: 24h0m0s}
ipvs: {scheduler: rr, syncPeriod: 30s, excludeCIDRs: [10.0.0.0/8], strictARP: true}
iptables: {masqueradeBit: 14, localhostNodePorts: null}
logging: {vmodule: [{filePattern: a, verbosity: 3}], format: text}
kubeIPVS: {socket: /run/kube-ipvs/kube-ipvs.sock}
`

export const TEXT_TARGETS: readonly Target[] = [
  {
    name: 'iptables-save',
    slice: 40,
    what: 'what iptables-save and -S print, and what is found in it',
    form: 'text',
    words: SAVE_WORDS,
    seeds: () => [SAVE],
    run: readSave,
  },
  {
    name: 'iptables-errors',
    what: 'what iptables-restore says about a failure',
    form: 'text',
    words: [
      'line ',
      'Error occurred at line: 3\n',
      "Try `iptables-restore --help' for more",
      'iptables-restore v1.8.9 (nf_tables): ',
    ],
    seeds: () => [
      "iptables-restore v1.8.9 (nf_tables): Chain 'X' does not exist\nError occurred at line: 3\nTry `iptables-restore -h' for more information.\n",
    ],
    run: (input) => void parseFailure(textOf(input)),
  },
  {
    name: 'nft-texts',
    what: 'what nft prints of the chains of others',
    form: 'text',
    words: [
      '\t\t',
      ' # handle 5\n',
      'tcp dport ',
      '{ 80, 443 }',
      '{',
      '}',
      'th dport 1-2',
      ' dnat to ',
      'chain x {\n',
      '"',
      ' ',
    ],
    seeds: () => [
      'table ip nat {\n\tchain PREROUTING { # handle 1\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\t\ttcp dport { 80, 443 } dnat to 10.244.0.5:443 # handle 5\n\t\tjump x comment "a # b" # handle 6\n\t}\n}\n',
    ],
    run(input) {
      for (const text of rulesByHandle(textOf(input)).values()) portOf(text)
    },
  },
  {
    name: 'configuration',
    slice: 40,
    microsecondsPerByte: 6,
    what: 'KubeProxyConfiguration, in YAML and JSON',
    form: 'text',
    words: [
      '&a ',
      '*a',
      '<<: *a',
      '---\n',
      '!!int ',
      '{',
      '}',
      '[',
      ']',
      ': ',
      '- ',
      '"',
      'mode',
      'ipvs',
      'conntrack',
      'kubeIPVS',
      'featureGates',
      '1h',
      '0x10',
      '.inf',
      '# ',
      '\t',
      '|\n',
    ],
    seeds: () => [
      CONFIGURATION,
      JSON.stringify({
        apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
        kind: 'KubeProxyConfiguration',
        mode: 'ipvs',
        ipvs: { scheduler: 'rr' },
      }),
    ],
    run: readConfiguration,
  },
  {
    name: 'annotations',
    what: 'annotations of Services that choose schedulers, weights and times',
    form: 'text',
    words: [
      'wrr',
      'mh',
      'sh',
      'lc',
      'fallback',
      'port',
      '24,64',
      '1h30m',
      'zone=a:3',
      'same-zone=10',
      'node-label',
      '*=1',
      'other',
      ',',
      '=',
      ':',
      '\n',
    ],
    seeds: () => ['sh\nfallback,port\n24,64\n90s\n100\nsame-zone=10,zone=b:2,*=1\n30s\nwrr\nnone\n'],
    run: readAnnotations,
  },
  {
    name: 'values',
    what: 'addresses, ranges, durations, quantities, entries of sets, targets of explain; what is shown of foreign text',
    form: 'text',
    words: [
      '::',
      'fd00::1',
      '10.0.0.1',
      '/24',
      ':80',
      '/tcp',
      '1h',
      '.',
      ':',
      '%eth0',
      '::ffff:1.2.3.4',
      'tcp:',
      'icmp:',
      '1e3',
      'Ki',
      'constructor:',
      '[',
      ']',
      ',',
    ],
    maxBytes: 2048,
    seeds: () => [
      '10.0.0.1',
      'fd00::1',
      '10.0.0.0/8',
      'fd00::/8',
      '1h30m',
      '100Mi',
      '10.0.0.1,tcp:80,10.0.0.0/8',
      '[fd00::1]:443/tcp',
      'default/web:http',
      'true',
      '1.5',
      '::ffff:10.0.0.1/120',
    ],
    run: readValues,
  },
  {
    name: 'host-files',
    what: 'files of systemd-networkd, sysctl.d and resolv.conf',
    form: 'text',
    words: [
      '[Match]\n',
      '[Link]\n',
      'Name=',
      'Unmanaged=',
      '*',
      '?',
      '!',
      ' ',
      '\n',
      '=',
      'net.ipv4.ip_forward',
      '/',
      '-',
      'nameserver ',
    ],
    maxBytes: 64 * 1024,
    seeds: () => [
      '[Match]\nName=kube-ipvs* !lo\n[Link]\nUnmanaged=yes\n',
      'net.ipv4.ip_forward = 1\n-net/ipv4/conf/eth0.1/rp_filter=2\n',
      'nameserver 10.0.0.1\n',
    ],
    run(input) {
      const text = textOf(input)
      readNetworkFile(text)
      readSysctlFile(text)
      nameserversOf(text)
    },
  },
]
