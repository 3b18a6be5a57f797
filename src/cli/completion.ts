/**
 * Completion of the command line for bash, zsh and fish, made from the tables of commands and
 * flags. A script offers the commands, the flags of the command that was typed, and values: words,
 * files or folders. Flags without effect and deprecated flags are left out.
 */
import { COMMAND_HELP } from './command-help.ts'
import { COMMAND_ARGUMENTS, COMMANDS, type CommandName, SHELLS, type Shell } from '../start/commands.ts'
import type { Flag } from '../start/flag.ts'
import { FLAGS } from '../start/flags.ts'
import { printText } from '../start/output.ts'
import { shellQuoted } from '../values/quote.ts'

/** @param words the shell, which the command line has checked */
export function printCompletion(words: readonly string[]): number {
  for (const shell of SHELLS) if (words.includes(shell)) printText(completionScript(shell))
  return 0
}

/** The script for a shell, ending with a line break. */
export function completionScript(shell: Shell): string {
  return `${SCRIPTS[shell]().join('\n')}\n`
}

const SCRIPTS: Readonly<Record<Shell, () => readonly string[]>> = { bash: bashScript, zsh: zshScript, fish: fishScript }

const SUBCOMMANDS: readonly CommandName[] = COMMANDS.filter((name) => name !== 'run')

/** What follows a flag. */
type Value =
  | { readonly kind: 'none' | 'file' | 'folder' | 'text' }
  | { readonly kind: 'words'; readonly words: readonly string[] }

function valueOf({ kind, value, words }: Flag): Value {
  if (kind === 'boolean' || kind === 'version') return { kind: 'none' }
  if (words !== undefined) return { kind: 'words', words }
  if (value === 'FILE') return { kind: 'file' }
  return { kind: value === 'DIR' ? 'folder' : 'text' }
}

function offeredFlags(command: CommandName): readonly Flag[] {
  return Object.values(FLAGS).filter(
    ({ commands, group, deprecated }) => commands.includes(command) && group !== 'unused' && deprecated === undefined,
  )
}

/** The words that a command takes beside flags, where they are few. */
function wordsOf(command: CommandName): readonly string[] {
  return COMMAND_ARGUMENTS[command]?.words ?? []
}

/** `--output`, and `-o` where there is one. */
function spellings({ name, short }: Flag): readonly string[] {
  return short === undefined ? [`--${name}`] : [`--${name}`, `-${short}`]
}

/** The first sentence of the help of a flag, without its full stop. */
function summaryOf({ help, about }: Flag, command: CommandName): string {
  const text = about?.[command] ?? help
  return (/^(.*?)(?:[.;:](?: |$)|$)/.exec(text)?.[1] ?? text).trim()
}

function bashScript(): readonly string[] {
  const flags = COMMANDS.map((command) => {
    const names = offeredFlags(command).flatMap(spellings)
    return `    ${command}) words='${names.join(' ')}' ;;`
  })
  const all = SUBCOMMANDS.concat('run').flatMap(offeredFlags)
  const names = (kind: Value['kind']): string =>
    [...new Set(all.filter((flag) => valueOf(flag).kind === kind).flatMap(spellings))].join('|')
  const words = new Map<string, string>()
  for (const flag of all) {
    const value = valueOf(flag)
    if (value.kind === 'words') words.set(spellings(flag).join('|'), value.words.join(' '))
  }
  const cases = Array.from(
    words,
    ([name, list]) => `    ${name}) mapfile -t COMPREPLY < <(compgen -W '${list}' -- "$current") ;;`,
  )
  return [
    '# bash completion of kube-ipvs, written by "kube-ipvs completion bash".',
    '_kube_ipvs() {',
    '  local current=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]} command=run words i',
    '  COMPREPLY=()',
    '  # bash makes three words of --flag=value.',
    '  if [[ $current == = ]]; then current=; elif [[ $flag == = ]]; then flag=${COMP_WORDS[COMP_CWORD-2]}; fi',
    '  for ((i = 1; i < COMP_CWORD; i++)); do',
    '    case ${COMP_WORDS[i]} in',
    `      ${[...words.keys(), names('file'), names('folder'), names('text')].join('|')})`,
    '        [[ ${COMP_WORDS[i+1]} == = ]] && ((i++))',
    '        ((i++)) ;;',
    `      ${SUBCOMMANDS.join('|')}) command=\${COMP_WORDS[i]}; break ;;`,
    '    esac',
    '  done',
    '  case $flag in',
    ...cases,
    `    ${names('file')}) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;`,
    `    ${names('folder')}) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;`,
    `    ${names('text')}) ;;`,
    '    *) _kube_ipvs_words ;;',
    '  esac',
    '}',
    '_kube_ipvs_words() {',
    '  case $command in',
    ...flags,
    '  esac',
    '  if [[ $current != -* ]]; then',
    '    case $command in',
    `      run) words='${SUBCOMMANDS.join(' ')} help' ;;`,
    ...SUBCOMMANDS.map((name) => `      ${name}) words='${wordsOf(name).join(' ')}' ;;`),
    '    esac',
    '  fi',
    '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")',
    '}',
    'complete -F _kube_ipvs kube-ipvs',
  ]
}

function zshScript(): readonly string[] {
  const zshValue = (flag: Flag): string => {
    const value = valueOf(flag)
    switch (value.kind) {
      case 'none':
        return ''
      case 'words':
        return `:value:(${value.words.join(' ')})`
      case 'file':
        return ':file:_files'
      case 'folder':
        return ':folder:_files -/'
      case 'text':
        return ':value: '
    }
  }
  const specification = (flag: Flag, command: CommandName): string => {
    const summary = summaryOf(flag, command).replaceAll(/[[\]\\:]/g, '\\$&')
    const body = shellQuoted(`[${summary}]${zshValue(flag)}`)
    const names = spellings(flag).map((name) =>
      valueOf(flag).kind !== 'none' && name.startsWith('--') ? `${name}=` : name,
    )
    const exclusive = names.length === 1 ? '' : shellQuoted(`(${spellings(flag).join(' ')})`)
    return `${exclusive}${names.length === 1 ? names.join('') : `{${names.join(',')}}`}${body}`
  }
  const functions = COMMANDS.flatMap((command) => [
    `_kube_ipvs_${command}() {`,
    '  _arguments -s \\',
    ...offeredFlags(command).map((flag) => `    ${specification(flag, command)} \\`),
    ...(command === 'run' ? ["    '1: :_kube_ipvs_commands' \\", "    '*:: :->rest'"] : ["    '*: :'"]),
    '}',
  ])
  return [
    '#compdef kube-ipvs',
    '# zsh completion of kube-ipvs, written by "kube-ipvs completion zsh".',
    '_kube_ipvs_commands() {',
    '  local -a commands=(',
    ...SUBCOMMANDS.map((name) => `    ${shellQuoted(`${name}:${COMMAND_HELP[name].summary.replaceAll(':', '\\:')}`)}`),
    "    'help:show help'",
    '  )',
    '  _describe command commands',
    '}',
    ...functions,
    '_kube_ipvs() {',
    `  local command=\${words[(r)${SUBCOMMANDS.join('|')}]}`,
    '  if [[ -n $command ]] && (( ${words[(i)$command]} < CURRENT )); then',
    '    words=("${(@)words:#$command}")',
    '    ((CURRENT--))',
    '    _kube_ipvs_$command',
    '  else',
    '    _kube_ipvs_run',
    '  fi',
    '}',
    'compdef _kube_ipvs kube-ipvs',
  ]
}

function fishScript(): readonly string[] {
  const noCommand = `not __fish_seen_subcommand_from ${SUBCOMMANDS.join(' ')}`
  const fishValue = (flag: Flag): string => {
    const value = valueOf(flag)
    switch (value.kind) {
      case 'none':
        return ''
      case 'words':
        return ` -x -a ${shellQuoted(value.words.join(' '))}`
      case 'file':
        return ' -r -F'
      case 'folder':
        return " -x -a '(__fish_complete_directories)'"
      case 'text':
        return ' -x'
    }
  }
  return [
    '# fish completion of kube-ipvs, written by "kube-ipvs completion fish".',
    'complete -c kube-ipvs -f',
    ...SUBCOMMANDS.map(
      (name) =>
        `complete -c kube-ipvs -n ${shellQuoted(noCommand)} -a ${name} -d ${shellQuoted(COMMAND_HELP[name].summary)}`,
    ),
    `complete -c kube-ipvs -n ${shellQuoted(noCommand)} -a help -d 'show help'`,
    ...SUBCOMMANDS.filter((name) => wordsOf(name).length > 0).map(
      (name) =>
        `complete -c kube-ipvs -n '__fish_seen_subcommand_from ${name}' -a ${shellQuoted(wordsOf(name).join(' '))}`,
    ),
    ...COMMANDS.flatMap((command) => {
      const condition = command === 'run' ? noCommand : `__fish_seen_subcommand_from ${command}`
      return offeredFlags(command).map((flag) => {
        const short = flag.short === undefined ? '' : ` -s ${flag.short}`
        return `complete -c kube-ipvs -n ${shellQuoted(condition)} -l ${flag.name}${short}${fishValue(flag)} -d ${shellQuoted(summaryOf(flag, command))}`
      })
    }),
  ]
}
