/** For the checks of predicted paths: facts that trigger them, with what they find, and facts that do not. */
import type { PathFact } from '../../../src/doctor/rule-facts.ts'
import { type Changes, type Row, UNSEEN } from './row.ts'

const path = (changes: Partial<PathFact>): PathFact => ({
  from: 'pod',
  source: '10.244.7.2',
  destination: '10.96.0.1:80/tcp',
  result: 'dropped',
  hook: 'INPUT',
  table: 'filter',
  chain: 'INPUT',
  rule: '',
  ...changes,
})

const paths = (...all: readonly Partial<PathFact>[]): Changes => ({ paths: { value: all.map(path) } })

export const PATHS_ROWS: readonly Row[] = [
  ['service-paths', {}, 'ok'],
  [
    'service-paths',
    paths({}, { from: 'outside', source: '198.51.100.77', destination: '192.0.2.7:30080/tcp' }),
    'error',
    /of pods of this node and clients outside are dropped in INPUT \(filter\) by the policy of INPUT: 10\.244\.7\.2 to 10\.96\.0\.1:80\/tcp, .*\n.*passes INPUT.*\nkube-ipvs explain 10\.96\.0\.1:80 --from 10\.244\.7\.2\n[^]*iptables -I INPUT -s 10\.244\.7\.0\/24 -j ACCEPT/,
  ],
  [
    'service-paths',
    paths({ result: 'refused', rule: '-j REJECT --reject-with icmp-host-prohibited' }),
    'error',
    /rejected in INPUT \(filter\) by "-A INPUT -j REJECT --reject-with icmp-host-prohibited"/,
  ],
  [
    'service-paths',
    paths({ destination: '[fd00::1]:80/tcp', source: 'fd00:244::2' }),
    'error',
    /explain \[fd00::1\]:80 --from fd00:244::2\n[^]*\nip6tables -I INPUT -s POD_CIDR/,
  ],
  [
    'service-paths',
    paths({ result: 'no-answer', hook: 'FORWARD', chain: 'FORWARD' }),
    'error',
    /The answers of Services to/,
  ],
  [
    'service-paths',
    paths({ from: 'outside', source: '198.51.100.77', destination: '192.0.2.7:30080/tcp' }),
    'warning',
    /of clients outside are dropped.*\n.*right where only known clients may[^]*\n# iptables -I INPUT -s CLIENTS -p tcp --dport 30000/,
  ],
  // A bundle could name anything.
  [
    'service-paths',
    paths({ destination: '$(reboot):80/tcp' }),
    'error',
    /time out or are refused\.\n# before the rule/,
  ],
  // What the proxy itself drops, and what depends on rules that cannot be judged.
  [
    'service-paths',
    paths({ chain: 'KUBE-PROXY-FIREWALL', rule: '-j DROP' }, { result: 'unsure' }, { result: 'passes' }),
    'ok',
  ],
  ['service-paths', paths({ table: 'ip kube-ipvs', chain: 'filter-output', hook: 'OUTPUT', rule: 'drop' }), 'ok'],
  ['service-paths', paths({ table: 'ip other', chain: 'filter-output', hook: 'OUTPUT', rule: 'drop' }), 'error'],
  ['service-paths', { paths: UNSEEN }, 'unknown'],
]
