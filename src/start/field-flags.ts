/**
 * The flags of configuration fields, made from the table in config/fields.ts. Here is only what
 * that table does not say: the commands besides those with a configuration that take such a flag,
 * and what it means to them.
 */
import type { FlagPath } from '../config/types.ts'
import { defaultAsText, FIELD_PATHS, fieldAt } from '../config/values.ts'
import { ASKING, CONFIGURED, LISTING, LOGGING } from './commands.ts'
import type { Flag } from './flag.ts'

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

const SOCKET = 'Socket of the running daemon (default: /run/kube-ipvs/kube-ipvs.sock); empty: do not ask it.'

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
    status: SOCKET,
    explain: SOCKET,
    diff: SOCKET,
    drain: SOCKET,
    top: SOCKET,
    doctor: SOCKET,
  },
  mode: {
    explain: 'The mode that is assumed without a running daemon.',
    doctor: 'The mode to check the node for (default: that of the running daemon, or ipvs).',
  },
}

/** Each of them with the path of its field. */
export function fieldFlags(): readonly (readonly [FlagPath, Flag])[] {
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
