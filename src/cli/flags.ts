/**
 * Every command and every flag, as data: those of the commands are listed here, those of configuration fields are made from the
 * table in config/fields.ts. The command line, `--help` and /flagz are read from it. DaemonSets start us with kube-proxy's own
 * command line, so a flag that exists there keeps its name and meaning.
 */
import type { FlagGroup, KindValues } from '../config/field.ts'
import type { FieldValues, FlagPath } from '../config/types.ts'
import { defaultAsText, FIELD_PATHS, fieldAt } from '../config/values.ts'
import { TRAFFIC_FLAGS } from './traffic-flags.ts'

export const COMMANDS = ['run', 'status', 'explain', 'top', 'drain', 'diff', 'doctor', 'cleanup', 'completion'] as const
/** `run` is the daemon: the command when none is named. */
export type CommandName = (typeof COMMANDS)[number]

/** What a command takes beside flags. */
export interface Arguments {
  /** The placeholder in its usage: `NAMESPACE/NAME`. */
  readonly name: string
  /** Default 0. */
  readonly atLeast?: number
  /** Default: any number. */
  readonly atMost?: number
  /** Every allowed word, where they are few. */
  readonly words?: readonly string[]
}

/** The shells whose completion there is. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** The commands that take words beside flags; the others refuse them. */
export const COMMAND_ARGUMENTS: { readonly [command in CommandName]?: Arguments } = {
  status: { name: 'NAMESPACE/NAME' },
  explain: { name: 'TARGET', atLeast: 1, atMost: 1 },
  top: { name: 'NAMESPACE[/NAME]', atMost: 1 },
  // It is told how to drain an endpoint.
  drain: { name: 'ENDPOINT' },
  completion: { name: 'SHELL', atLeast: 1, atMost: 1, words: SHELLS },
}

/** What each kind of flag becomes: the kinds of configuration fields, and two more. */
export interface FlagKinds extends KindValues {
  version: string
  output: 'text' | 'json'
}

export interface Flag {
  /** Name on the command line, without dashes. */
  readonly name: string
  /** One letter that does the same after a single dash. */
  readonly short?: string | undefined
  readonly kind: keyof FlagKinds
  readonly commands: readonly CommandName[]
  /** What to use instead; written to standard error each time. */
  readonly deprecated?: string
  /** True for flags that kube-proxy does not have. */
  readonly own?: boolean
  /** True for flags that kube-proxy 1.37 does not have any more: accepted for older command lines, and shown only where they are given. */
  readonly isGone?: boolean
  readonly group: FlagGroup
  /** Placeholder of the value in help; '' for a boolean. */
  readonly value?: string | undefined
  /** Instead of `value`, where the flag means something else to a command. */
  readonly values?: { readonly [command in CommandName]?: string } | undefined
  /** Every allowed value, where they are few words. */
  readonly words?: readonly string[] | undefined
  readonly help: string
  /** Instead of `help`, where the flag means something else to a command. */
  readonly about?: { readonly [command in CommandName]?: string } | undefined
  /** The default, as /flagz shows it. */
  readonly default?: string | undefined
  /** The default as help shows it, where the text of /flagz does not explain it. */
  readonly defaultHelp?: string | undefined
}

const RUN = ['run'] as const
/** Commands that need a configuration. */
const CONFIGURED = ['run', 'diff'] as const
/** Commands that list Services. */
const LISTING = ['run', 'diff', 'status', 'explain', 'doctor'] as const
/** Commands that ask the running daemon. */
const ASKING = ['run', 'diff', 'status', 'explain', 'top', 'drain', 'doctor'] as const
const DOCTOR = ['doctor'] as const
/** Commands that take the flags for logging. */
const LOGGING = ['run', 'status', 'explain', 'diff', 'doctor', 'cleanup'] as const
/** Commands that look at the node or change it. */
const ALL = ['run', 'status', 'explain', 'top', 'drain', 'diff', 'doctor', 'cleanup'] as const

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
    commands: DOCTOR,
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

/** Field flags of more commands than those that need a configuration. */
const FIELD_COMMANDS: { readonly [Path in FlagPath]?: Flag['commands'] } = {
  hostnameOverride: LISTING,
  'kubeIPVS.socket': ASKING,
  'clientConnection.kubeconfig': LISTING,
  metricsBindAddress: ['run', 'diff', 'status', 'doctor'],
  mode: [...CONFIGURED, 'explain', 'doctor'],
  'ipvs.scheduler': [...CONFIGURED, 'doctor'],
  'ipvs.strictARP': [...CONFIGURED, 'doctor'],
  'logging.verbosity': LOGGING,
  'logging.format': LOGGING,
}

/** Field flags that mean something else to a command. */
const FIELD_ABOUT: { readonly [Path in FlagPath]?: Flag['about'] } = {
  'clientConnection.kubeconfig': {
    status: 'Read the names of Services from the API server of this kubeconfig.',
    explain: 'Without a running daemon: list Services at the API server of this kubeconfig.',
    doctor: 'Also check the cluster that this kubeconfig names, and compare the kernel with its Services.',
  },
  metricsBindAddress: {
    status: 'Metrics address of the daemon, at which its mode is read.',
    doctor: 'Metrics address at which a running proxy is asked for its mode.',
  },
  'kubeIPVS.socket': {
    status: 'Socket of the running daemon (default: /run/kube-ipvs/kube-ipvs.sock); empty: do not ask it.',
    explain: 'Socket of the running daemon (default: /run/kube-ipvs/kube-ipvs.sock); empty: do not ask it.',
    diff: 'Socket of the running daemon (default: /run/kube-ipvs/kube-ipvs.sock); empty: do not ask it.',
    drain: 'Socket of the running daemon (default: /run/kube-ipvs/kube-ipvs.sock); empty: do not ask it.',
    top: 'Socket of the running daemon (default: /run/kube-ipvs/kube-ipvs.sock); empty: do not ask it.',
    doctor: 'Socket of the running daemon (default: /run/kube-ipvs/kube-ipvs.sock); empty: do not ask it.',
  },
  mode: {
    explain: 'The mode that is assumed without a running daemon.',
    doctor: 'The mode to check the node for (default: that of the running daemon, or ipvs).',
  },
}

function fieldFlags(): readonly (readonly [FlagPath, Flag])[] {
  const paths = FIELD_PATHS.filter((path): path is FlagPath => fieldAt(path).flag !== undefined)
  return paths.map((path) => {
    const { kind, defaultText, flag, words } = fieldAt(path)
    const made: Flag = {
      name: flag?.name ?? '',
      short: flag?.short,
      kind,
      commands: FIELD_COMMANDS[path] ?? CONFIGURED,
      own: path.startsWith('kubeIPVS.'),
      group: flag?.group ?? 'unused',
      value: flag?.value,
      words,
      help: helpOf(path),
      about: FIELD_ABOUT[path],
      default: flag?.default ?? defaultAsText(path),
      defaultHelp: flag?.default ?? defaultText,
    }
    return [path, made]
  })
}

/** What the field is for, its few words or its range, and the mode where only one has it. */
function helpOf(path: FlagPath): string {
  const { doc, rule, words, reload } = fieldAt(path)
  const few = words === undefined ? [] : [`One of ${words.join(', ')}.`]
  const range = Array.isArray(rule) ? [`${rule.join(' to ')}.`] : []
  const modes = MODES.filter((mode) => reload[mode] !== 'none')
  return [doc, ...few, ...range, ...(modes.length === 1 ? [`In ${modes.join('')} mode only.`] : [])].join(' ')
}

const MODES = ['ipvs', 'iptables'] as const

/** Every flag by its key. */
export const FLAGS: Readonly<Record<FlagKey, Flag>> = {
  ...COMMAND_FLAGS,
  ...(Object.fromEntries(fieldFlags()) as Record<FlagPath, Flag>), // fromEntries forgets which keys there are
}
