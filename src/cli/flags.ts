/**
 * Every command and every flag, as data: the command line is read, and help is printed, from this table.
 * What could break: DaemonSets start us with kube-proxy's own command line; a flag that exists there keeps its name and meaning.
 */
export const COMMANDS = ['run', 'status', 'diff', 'cleanup'] as const
/** `run` is the daemon: the command when none is named. */
export type CommandName = (typeof COMMANDS)[number]

/** What a flag takes: `count` a whole number from 0, `duration` Go's syntax, `choice` one of a few words. */
export type FlagKind = 'boolean' | 'text' | 'count' | 'duration' | 'choice'

export interface Flag {
  /** Name on the command line, without dashes. */
  readonly name: string
  /** One letter that does the same after a single dash. */
  readonly short?: string
  readonly kind: FlagKind
  /** What stands for the value in help; '' for a boolean. */
  readonly placeholder: string
  readonly choices?: readonly string[]
  /** What holds when the flag is not given, for help; absent when that goes without saying. */
  readonly default?: string
  readonly help: string
  readonly commands: readonly CommandName[]
}

/** Keys are the names in `FlagValues`; the order is that of help. */
export const FLAGS = {
  config: {
    name: 'config',
    kind: 'text',
    placeholder: 'FILE',
    help: 'KubeProxyConfiguration (v1alpha1) to run with. Beside it only --hostname-override, --master and the logging flags count.',
    commands: ['run', 'diff', 'cleanup'],
  },
  manifests: {
    name: 'manifests',
    kind: 'text',
    placeholder: 'DIR',
    help: 'Take Services, EndpointSlices and Nodes from the YAML and JSON files of this folder instead of asking an API server; the daemon follows every change of them.',
    commands: ['run', 'diff'],
  },
  once: {
    name: 'once',
    kind: 'boolean',
    placeholder: '',
    help: 'Make one pass, then exit.',
    commands: ['run'],
  },
  dryRun: {
    name: 'dry-run',
    kind: 'boolean',
    placeholder: '',
    help: 'Print what would be removed and change nothing.',
    commands: ['cleanup'],
  },
  hostnameOverride: {
    name: 'hostname-override',
    kind: 'text',
    placeholder: 'NAME',
    default: 'the host name',
    help: 'Name of the Node object of this machine.',
    commands: ['run', 'diff'],
  },
  master: {
    name: 'master',
    kind: 'text',
    placeholder: 'URL',
    help: 'Address of the API server; replaces the one of the kubeconfig.',
    commands: ['run', 'diff'],
  },
  kubeconfig: {
    name: 'kubeconfig',
    kind: 'text',
    placeholder: 'FILE',
    default: 'in-cluster configuration',
    help: 'How to reach the API server. Ignored with --config, which names its own.',
    commands: ['run', 'diff'],
  },
  proxyMode: {
    name: 'proxy-mode',
    kind: 'text',
    placeholder: 'MODE',
    default: 'ipvs',
    help: 'ipvs or iptables. Ignored with --config, which names its own.',
    commands: ['run', 'diff'],
  },
  drainDeadline: {
    name: 'drain-deadline',
    kind: 'duration',
    placeholder: 'DURATION',
    default: '0s, no deadline',
    help: 'Remove a draining real server after this time (30s, 10m) even if it still has connections.',
    commands: ['run'],
  },
  output: {
    name: 'output',
    short: 'o',
    kind: 'choice',
    placeholder: 'text|json',
    choices: ['text', 'json'],
    default: 'text',
    help: 'json prints exactly one JSON value on standard output.',
    commands: ['run', 'status', 'diff', 'cleanup'],
  },
  verbosity: {
    name: 'v',
    short: 'v',
    kind: 'count',
    placeholder: 'N',
    default: '0',
    help: 'How much to log: 2 shows every change, 4 helps with debugging.',
    commands: ['run', 'status', 'diff', 'cleanup'],
  },
  loggingFormat: {
    name: 'logging-format',
    kind: 'choice',
    placeholder: 'text|json',
    choices: ['text', 'json'],
    default: 'text',
    help: 'Form of the log lines on standard error.',
    commands: ['run', 'status', 'diff', 'cleanup'],
  },
  help: {
    name: 'help',
    short: 'h',
    kind: 'boolean',
    placeholder: '',
    help: 'Print this text and exit.',
    commands: ['run', 'status', 'diff', 'cleanup'],
  },
  version: {
    name: 'version',
    kind: 'boolean',
    placeholder: '',
    help: 'Print the version and exit.',
    commands: ['run'],
  },
} as const satisfies Readonly<Record<string, Flag>>

export type FlagKey = keyof typeof FLAGS
type ValueOf<F extends Flag> = F['kind'] extends 'boolean'
  ? boolean
  : F extends { readonly choices: readonly (infer Choice)[] }
    ? Choice
    : F['kind'] extends 'text'
      ? string
      : number

/** Values of the flags that were given: booleans, texts, numbers, and durations in milliseconds. */
export type FlagValues = { readonly [Key in FlagKey]?: ValueOf<(typeof FLAGS)[Key]> }
