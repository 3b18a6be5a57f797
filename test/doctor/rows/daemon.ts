/** For the checks of the daemon: facts that trigger them, with what they find, and facts that do not. */
import type { ApiServerFact } from '../../../src/doctor/cluster-facts.ts'
import { OLDER_BUNDLE } from '../../../src/doctor/seen.ts'
import { CLEAN_RULES, clusterWith, daemon, running } from '../healthy-node.ts'
import { type Changes, type Row, UNSEEN } from './row.ts'

/** Nobody answers, and the bundle is of a program that did not look for modes. */
const OLD = { daemon: { value: null }, runningMode: null, modesInKernel: OLDER_BUNDLE } as const

const silent = (changes: Partial<ApiServerFact>): Changes => ({
  apiServer: {
    server: 'https://192.0.2.1:6443',
    code: 'ECONNREFUSED',
    reason: 'connect ECONNREFUSED 192.0.2.1:6443',
    place: 'elsewhere',
    ...changes,
  },
})

export const API_SERVER_ROWS: readonly Row[] = [
  ['api-server', {}, 'ok'],
  [
    'api-server',
    silent({}),
    'warning',
    /^The API server "https:\/\/192\.0\.2\.1:6443" does not answer[^]*no change of a Service arrives[^]*\ncurl -k https:\/\/192\.0\.2\.1:6443\/livez\n# from another node/,
  ],
  ['api-server', silent({ code: 'ETIMEDOUT' }), 'warning', /\nip route get 192\.0\.2\.1\n/],
  ['api-server', silent({ code: 'deadline' }), 'warning', /\nip route get 192\.0\.2\.1\n/],
  [
    'api-server',
    silent({ place: 'here', server: 'https://127.0.0.1:6443' }),
    'warning',
    /one of this node[^]*crictl ps/,
  ],
  [
    'api-server',
    silent({ place: 'virtual-ip' }),
    'warning',
    /the node asks itself\.\nkube-ipvs status --address 192\.0\.2\.1\n[^]*grep 192\.0\.2\.1\n[^]*without any Service$/,
  ],
  [
    'api-server',
    silent({ place: 'virtual-server', server: 'https://[fd00:10:96::1]:443', code: 'ETIMEDOUT' }),
    'warning',
    /endpoints that its virtual server has\.\nkube-ipvs status --address fd00:10:96::1\n/,
  ],
  [
    'api-server',
    silent({ place: 'name', server: 'https://api.example:6443', code: 'EAI_AGAIN' }),
    'warning',
    /\ngetent hosts api\.example\n# a resolver that is a Service/,
  ],
  ['api-server', silent({ code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' }), 'warning', /certificate-authority[^]*date -u$/],
  [
    'api-server',
    silent({ server: '', code: 'ENOENT', reason: 'no such file', place: 'unknown' }),
    'note',
    /^doctor does not know the API server: "no such file"\.[^]*clientConnection\.kubeconfig/,
  ],
  // A bundle could name anything.
  [
    'api-server',
    silent({ server: 'https://x; reboot' }),
    'warning',
    /^The API server "https:\/\/x; reboot"[^\n]*\n[^\n]*\n(?![^]*reboot)curl -k https:\/\/API-SERVER\/livez/,
  ],
]

export const DAEMON_ROWS: readonly Row[] = [
  ['daemon-health', {}, 'ok'],
  [
    'daemon-health',
    daemon({ health: { healthy: false, reason: 'the Node is unknown' } }),
    'error',
    /says: the Node is unknown\.\n.*503/,
  ],
  ['daemon-health', daemon({ awaiting: ['services'] }), 'warning', /waits for the list of services/],
  ['daemon-health', daemon({ mode: 'iptables' }), 'warning', /still runs in iptables mode instead of ipvs mode/],
  [
    'daemon-health',
    daemon({ mode: 'iptables', fallback: { message: 'no IPVS', remedy: 'modprobe ip_vs' } }),
    'warning',
    /runs in iptables mode: no IPVS\.[^]*# modprobe ip_vs/,
  ],
  [
    'daemon-health',
    daemon({ passes: [{ what: 'IPv6', failed: 1, unreadable: 0 }] }),
    'error',
    /1 operation .*rules of IPv6/,
  ],
  [
    'daemon-health',
    daemon({ passes: [{ what: 'tables', failed: 0, unreadable: 2 }] }),
    'error',
    /2 tables of the kernel/,
  ],
  [
    'daemon-health',
    daemon({
      problems: [{ code: 'a', about: 'node', subject: 'kube-ipvs0', field: null, message: 'is no dummy' }],
      problemCount: 1,
    }),
    'error',
    /kube-ipvs0: is no dummy/,
  ],
  [
    'daemon-health',
    daemon({
      problems: [
        { code: 'a', about: 'object', subject: 'service demo/web', field: 'spec', message: 'is wrong' },
        { code: 'a', about: 'setting', subject: 'sysctl net.x', field: null, message: 'is read-only' },
      ],
      problemCount: 9,
    }),
    'note',
    /8 problems with objects[^]*could not write 1 setting/,
  ],
  [
    'daemon-health',
    daemon({
      problems: [
        {
          code: 'localhost-node-port',
          about: 'object',
          subject: 'service demo/web',
          field: 'spec.ports',
          message: 'node node0 cannot listen at 127.0.0.1:30080 for the node port: address already in use',
        },
      ],
      problemCount: 1,
    }),
    'warning',
    /cannot listen at node ports of loopback addresses: 127\.0\.0\.1:30080 \(address already in use\)\.[^]*sport = :30080/,
  ],
  [
    'daemon-health',
    { daemon: { unseen: 'no' }, daemonSilence: 'it does not answer within 10 s' },
    'warning',
    /does not answer within 10 s/,
  ],
  [
    'daemon-health',
    daemon({ room: { limit: 5000, leftOut: { services: 2, frontends: 1 } } }),
    'warning',
    /room for 5000 real servers \(kubeIPVS\.maxRealServers\) does not suffice: 1 frontend of 2 Services left out/,
  ],
  ['daemon-health', daemon({ room: null }), 'ok'],
  ['daemon-health', { daemon: { unseen: 'Permission denied' } }, 'unknown'],
  ['daemon-health', { daemon: { value: null }, runningMode: null }, 'warning', /no proxy answers/],
  // The virtual servers are those of another program.
  ['daemon-health', { daemon: { value: null }, runningMode: null, modesInKernel: { value: [] } }, 'ok'],
  ['daemon-health', { daemon: { value: null }, runningMode: null, modesInKernel: UNSEEN }, 'ok'],
  // Older programs did not look for modes.
  ['daemon-health', { ...OLD, ipvs: { value: null }, rules: { value: [CLEAN_RULES] } }, 'ok'],
  ['daemon-health', { ...OLD, rules: UNSEEN }, 'warning', /no proxy answers/],
  [
    'daemon-health',
    { ...OLD, ipvs: UNSEEN, rules: { value: [{ ...CLEAN_RULES, serviceChains: 12 }] } },
    'warning',
    /no proxy answers/,
  ],
  ['daemon-health', { daemon: { value: null }, runningMode: null, hiddenProcesses: 'hidepid' }, 'ok'],
  ['daemon-health', { daemon: { value: null }, runningMode: null, ...running('kube-proxy') }, 'ok'],
  ['daemon-health', { daemon: { value: null } }, 'ok'],
  ['node-name', {}, 'ok'],
  [
    'node-name',
    clusterWith({ node: { value: { isThere: false, similar: ['node7.example.internal', '$(reboot)'] } } }),
    'error',
    /no Node "node7"; this host may be "node7\.example\.internal"\.[^]*\n--hostname-override=node7\.example\.internal\n/,
  ],
  ['node-name', clusterWith({ node: { value: { isThere: false, similar: [] } } }), 'error', /no Node "node7"\.\n/],
  ['node-name', clusterWith({ node: UNSEEN }), 'unknown'],
  ['node-name', { cluster: UNSEEN }, 'unknown'],
  [
    'node-name',
    { cluster: UNSEEN, ...daemon({ knowsNode: false, health: { healthy: false, reason: 'the Node is unknown' } }) },
    'error',
    /does not know its Node "node7"/,
  ],
  // Manifests need no Node.
  ['node-name', { cluster: UNSEEN, ...daemon({ knowsNode: false }) }, 'unknown'],
]
