/**
 * The text of `--help`: what a command is for, how to call it, its flags from the flag table, examples and exit codes.
 * What could break: exit codes are a promise to scripts; the table here is where they are written down.
 */
import { FLAG_GROUPS, FLAG_HELP, type FlagHelp } from './flag-help.ts'
import { COMMANDS, type CommandName, FLAGS, type Flag, type FlagKey } from './flags.ts'

interface CommandHelp {
  /** One line for the list of commands. */
  readonly summary: string
  readonly usage: string
  readonly description: string
  readonly examples: readonly (readonly [command: string, what: string])[]
  readonly exitCodes: readonly (readonly [code: string, meaning: string])[]
}

export const COMMAND_HELP: Readonly<Record<CommandName, CommandHelp>> = {
  run: {
    summary: "keep this node's IPVS table right (the daemon; no command needed)",
    usage: 'kube-ipvs [flags]',
    description:
      'Watches Services and EndpointSlices and keeps the IPVS table of the kernel in step with them: a virtual server for ' +
      'every address, port and protocol this node answers for, and the endpoints behind it. What it finds right it ' +
      'leaves alone, so a restart disturbs no connection; what someone else changes it puts right again. It needs root, ' +
      'or the capability NET_ADMIN in the network namespace of the host.',
    examples: [
      ['kube-ipvs --config=/var/lib/kube-proxy/config.conf', 'as kubeadm starts its proxy'],
      ['kube-ipvs --manifests ./examples', 'from a folder, without a cluster; edits count at once'],
      ['kube-ipvs --manifests ./examples --once -v 2', 'one pass, with a log line for each change'],
    ],
    exitCodes: [
      ['0', 'after --once, --write-config-to, --help or --version'],
      ['1', 'wrong flags or configuration, or a failure that only a restart can mend'],
      ['143', 'ended by SIGTERM; the table stays as it is and traffic goes on'],
    ],
  },
  status: {
    summary: 'show the IPVS table and what state it is in',
    usage: 'kube-ipvs status [flags]',
    description:
      'Reads the kernel and prints a summary and the table of virtual servers with their real servers, weights and ' +
      'connections. It asks nobody but the kernel and changes nothing.',
    examples: [
      ['kube-ipvs status', 'summary and table'],
      ['kube-ipvs status --output json', 'the same for a program'],
    ],
    exitCodes: [
      ['0', 'shown'],
      ['1', 'wrong flags, or the kernel cannot be read'],
    ],
  },
  diff: {
    summary: 'show what a pass would change, and change nothing',
    usage: 'kube-ipvs diff [flags]',
    description:
      'Compares what Services and EndpointSlices ask for with what the kernel has, and prints every difference as the ' +
      'command an operator would type to remove it. A drain that is under way is no difference.',
    examples: [
      ['kube-ipvs diff --manifests ./examples', 'against a folder of manifests'],
      ['kube-ipvs diff --config=/var/lib/kube-proxy/config.conf', 'against the cluster'],
    ],
    exitCodes: [
      ['0', 'nothing differs'],
      ['1', 'something differs'],
      ['2', 'wrong flags, or one of the two sides cannot be read'],
    ],
  },
  cleanup: {
    summary: 'remove everything kube-ipvs has made on this node',
    usage: 'kube-ipvs cleanup [flags]',
    description:
      'Removes our virtual servers and the device kube-ipvs0 with its addresses, and leaves alone what is not ours: ' +
      'virtual servers by firewall mark and those inside ipvs.excludeCIDRs of the configuration. Stop the daemon first, ' +
      'or it will make everything again.',
    examples: [
      ['kube-ipvs cleanup --dry-run', 'the commands, not run'],
      ['kube-ipvs cleanup', 'run'],
    ],
    exitCodes: [
      ['0', 'all gone, or there was nothing'],
      ['1', 'wrong flags, or something could not be removed'],
    ],
  },
}

const WIDTH = 100

/** Help of one command, ending with a line break. */
export function helpText(command: CommandName): string {
  const { description, usage, examples, exitCodes } = COMMAND_HELP[command]
  const sections = [
    wrap(description, WIDTH).join('\n'),
    `Usage:\n  ${usage}${command === 'run' ? '\n  kube-ipvs COMMAND [flags]' : ''}`,
    ...(command === 'run'
      ? [
          section(
            'Commands',
            COMMANDS.filter((name) => name !== 'run').map((name) => [name, COMMAND_HELP[name].summary]),
          ),
        ]
      : []),
    ...flagSections(command),
    `Examples:\n${examples.map(([line, what]) => `  # ${what}\n  ${line}`).join('\n')}`,
    section('Exit codes', exitCodes),
  ]
  return `${sections.join('\n\n')}\n`
}

/** The flags of a command in their groups; a few of them in one. */
function flagSections(command: CommandName): string[] {
  // Object.entries forgets that its keys are those of the object.
  const entries = (Object.entries(FLAG_HELP) as [FlagKey, FlagHelp][]).flatMap(([key, help]) => {
    const flag: Flag = FLAGS[key]
    return flag.commands.includes(command)
      ? [{ group: help.group, row: [spelling(flag, help), description(help)] as const }]
      : []
  })
  if (entries.length < FEW)
    return [
      section(
        'Flags',
        entries.map(({ row }) => row),
      ),
    ]
  const termWidth = Math.max(...entries.map(({ row: [term] }) => term.length))
  return FLAG_GROUPS.flatMap((group) => {
    const rows = entries.flatMap((entry) => (entry.group === group ? [entry.row] : []))
    return rows.length === 0 ? [] : [section(`Flags: ${group}`, rows, termWidth)]
  })
}

const FEW = 12

/** `-v, --v N`; flags without a short form leave its place empty. */
function spelling(flag: Flag, { value }: FlagHelp): string {
  const short = flag.short === undefined ? '    ' : `-${flag.short}, `
  return `${short}--${flag.name}${value === '' ? '' : ` ${value}`}`
}

function description({ help, default: fallback }: FlagHelp): string {
  return fallback === undefined ? help : `${help} (default ${fallback})`
}

/** A titled list of terms and their explanations, the latter aligned and wrapped. */
function section(
  title: string,
  rows: readonly (readonly [term: string, explanation: string])[],
  termWidth = Math.max(...rows.map(([term]) => term.length)),
): string {
  const indent = ' '.repeat(termWidth + 4)
  const lines = rows.map(([term, explanation]) => {
    const text = wrap(explanation, WIDTH - indent.length).join(`\n${indent}`)
    return `  ${term.padEnd(termWidth)}  ${text}`
  })
  return `${title}:\n${lines.join('\n')}`
}

/** Breaks a text at spaces into lines of at most `width` characters; a longer word stands alone. */
function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return [...lines, line]
}
