/**
 * Every flag, as data: those of the commands are listed here, those of configuration fields are
 * made in field-flags.ts. The command line, `--help` and /flagz are read from it. DaemonSets start
 * us with kube-proxy's own command line, so a flag that exists there keeps its name and meaning.
 */
import type { FieldValues, FlagPath } from '../config/types.ts'
import { ALL, COMMANDS, CONFIGURED, LISTING, RUN } from './commands.ts'
import { fieldFlags } from './field-flags.ts'
import type { Flag, FlagKinds } from './flag.ts'
import { TRAFFIC_FLAGS } from './traffic-flags.ts'

const insteadOf = (name: string) =>
  `This flag is deprecated and will be removed in a future release. Please use --${name} instead.`

/** Flags that are not configuration fields; keys are the names in `FlagValues`. */
const COMMAND_FLAGS = {
  config: {
    name: 'config',
    kind: 'text',
    commands: ALL,
    group: 'first',
    value: 'FILE',
    help: 'KubeProxyConfiguration (v1alpha1) to run with. With it only these flags count: --hostname-override, --master, --cleanup, --init-only, --write-config-to, those for logging, and those that kube-proxy does not have.',
    about: {
      status:
        'KubeProxyConfiguration (v1alpha1) of the daemon: the mode is read at its metrics address, the names of Services from its API server.',
      explain:
        'KubeProxyConfiguration (v1alpha1) of the daemon. Without a running daemon Services are listed at its API server.',
      doctor:
        'KubeProxyConfiguration (v1alpha1) that the node is checked for. Without it: the defaults, in the mode of the running daemon or ipvs mode.',
      top: 'KubeProxyConfiguration (v1alpha1) of the daemon, which names its socket.',
      drain: 'KubeProxyConfiguration (v1alpha1) of the daemon, which names its socket.',
      cleanup: 'KubeProxyConfiguration (v1alpha1) whose ipvs.excludeCIDRs names virtual servers to keep.',
    },
  },
  from: {
    name: 'from',
    kind: 'text',
    commands: ['doctor', 'explain'],
    own: true,
    group: 'first',
    value: 'FILE',
    values: { explain: 'SOURCE' },
    help: 'Analyse this bundle instead of the node; no other flag but --output counts.',
    about: {
      explain: 'Also follow a packet from here through this node: node, an IP address, or NAMESPACE/NAME of a pod.',
    },
  },
  bundle: {
    name: 'bundle',
    kind: 'text',
    commands: ['doctor'],
    own: true,
    group: 'first',
    value: 'FILE',
    help: 'Also write what was collected to this new file, for --from; compressed when it ends in .gz.',
  },
  manifests: {
    name: 'manifests',
    kind: 'text',
    commands: LISTING,
    own: true,
    group: 'first',
    value: 'DIR',
    help: 'Read Services, EndpointSlices and Nodes from the YAML and JSON files of this folder instead of an API server, and follow every change of them.',
    about: {
      status: 'Read the names of Services from the YAML and JSON files of this folder.',
      explain: 'Without a running daemon: read Services from the YAML and JSON files of this folder.',
      doctor: 'Compare the kernel with what the Services of this folder need.',
    },
  },
  address: {
    name: 'address',
    kind: 'text',
    commands: ['status', 'top'],
    own: true,
    group: 'first',
    value: 'IP',
    help: 'Only what has this address: a virtual server, or one of its endpoints.',
  },
  pod: {
    name: 'pod',
    kind: 'text',
    commands: ['status'],
    own: true,
    group: 'first',
    value: 'NAMESPACE/NAME',
    help: 'Only what this pod is an endpoint of, as EndpointSlices name it; the daemon has to answer.',
  },
  draining: {
    name: 'draining',
    kind: 'boolean',
    commands: ['status'],
    own: true,
    group: 'first',
    help: 'Only real servers that drain.',
  },
  problems: {
    name: 'problems',
    kind: 'boolean',
    commands: ['status'],
    own: true,
    group: 'first',
    help: 'Only Services with problems or conflicts, and what they are.',
  },
  watch: {
    name: 'watch',
    kind: 'boolean',
    commands: ['status'],
    own: true,
    group: 'first',
    help: 'Show it again every 2 seconds, in a terminal until q or Ctrl-C.',
  },
  ...TRAFFIC_FLAGS,
  dryRun: {
    name: 'dry-run',
    kind: 'boolean',
    commands: ['cleanup'],
    own: true,
    group: 'first',
    help: 'Print what would be removed and change nothing.',
  },
  output: {
    name: 'output',
    short: 'o',
    kind: 'output',
    words: ['text', 'json'],
    commands: ALL,
    own: true,
    group: 'first',
    help: 'json prints exactly one JSON value on standard output.',
    default: 'text',
  },
  help: {
    name: 'help',
    short: 'h',
    kind: 'boolean',
    commands: COMMANDS,
    group: 'first',
    help: 'Print this text and exit.',
  },

  once: {
    name: 'once',
    kind: 'boolean',
    commands: ['run', 'top'],
    own: true,
    group: 'once',
    help: 'Make one pass, then exit.',
    about: { top: 'Print one table after one interval; without a terminal and with --output json always.' },
  },
  writeConfigTo: {
    name: 'write-config-to',
    kind: 'text',
    commands: RUN,
    group: 'once',
    value: 'FILE',
    help: 'Write the configuration as it would be used to this file.',
  },
  initOnly: {
    name: 'init-only',
    kind: 'boolean',
    commands: RUN,
    group: 'once',
    help: 'Write the settings of the kernel, which needs all rights of root; later starts need only NET_ADMIN.',
  },
  cleanup: {
    name: 'cleanup',
    kind: 'boolean',
    commands: RUN,
    group: 'once',
    help: 'Remove what a proxy of any mode left on this node, as kube-ipvs cleanup does.',
  },
  version: {
    name: 'version',
    kind: 'version',
    commands: RUN,
    group: 'once',
    help: 'Print the version; --version=raw prints more.',
    default: 'false',
  },

  master: {
    name: 'master',
    kind: 'text',
    commands: LISTING,
    group: 'api',
    value: 'URL',
    help: 'Address of the API server; replaces the one of the kubeconfig.',
  },
  healthzPort: {
    name: 'healthz-port',
    kind: 'int32',
    commands: CONFIGURED,
    deprecated: insteadOf('healthz-bind-address'),
    group: 'ports',
    help: 'Deprecated: use --healthz-bind-address. 0 switches the port off.',
    default: '10256',
  },
  metricsPort: {
    name: 'metrics-port',
    kind: 'int32',
    commands: CONFIGURED,
    deprecated: insteadOf('metrics-bind-address'),
    group: 'ports',
    help: 'Deprecated: use --metrics-bind-address.',
    default: '10249',
  },
  bootIdFile: {
    name: 'boot-id-file',
    kind: 'text',
    commands: RUN,
    group: 'unused',
    value: 'FILE,...',
    help: '',
    isGone: true,
  },
  machineIdFile: {
    name: 'machine-id-file',
    kind: 'text',
    commands: RUN,
    group: 'unused',
    value: 'FILE,...',
    help: '',
    isGone: true,
  },
} as const satisfies Readonly<Record<string, Flag>>

type CommandFlagKey = keyof typeof COMMAND_FLAGS

/** The name of a flag in `FlagValues`; of a flag for a field, the path of the field. */
export type FlagKey = CommandFlagKey | FlagPath

/** Values of the flags that were given. Durations are milliseconds. */
export type FlagValues = {
  readonly [Key in CommandFlagKey]?: FlagKinds[(typeof COMMAND_FLAGS)[Key]['kind']]
} & Pick<FieldValues, FlagPath>

/** Every flag by its key. */
export const FLAGS: Readonly<Record<FlagKey, Flag>> = {
  ...COMMAND_FLAGS,
  ...(Object.fromEntries(fieldFlags()) as Record<FlagPath, Flag>), // fromEntries forgets which keys there are
}
