/**
 * Reads a command line and runs its command. The user sees an error as one line that says what is wrong, and a stack only for a bug
 * in this program.
 */
import { CodedError } from '../values/errors.ts'
import { type CommandLine, parseCommandLine, USAGE_EXIT_CODE } from './command-line.ts'
import type { CommandName } from './commands.ts'
import type { FlagValues } from './flags.ts'

/** A command is loaded when it runs: `--help` needs none of them. */
const RUN: Readonly<Record<CommandName, (flags: FlagValues, words: readonly string[]) => Promise<number>>> = {
  run: async (flags) => {
    if (flags.writeConfigTo !== undefined && flags.writeConfigTo !== '')
      return (await import('./write-configuration.ts')).writeConfiguration(flags, flags.writeConfigTo)
    return (await import('./run.ts')).run(flags)
  },
  status: async (flags, words) => (await import('./show-status.ts')).showStatus(flags, words),
  explain: async (flags, words) => (await import('./explain.ts')).explain(flags, words),
  top: async (flags, words) => (await import('./top.ts')).top(flags, words),
  drain: async (flags, words) => (await import('./drain.ts')).drain(flags, words),
  doctor: async (flags) => (await import('./doctor.ts')).doctor(flags),
  diff: async (flags) => (await import('./diff.ts')).diff(flags),
  completion: async (_flags, words) => (await import('./completion.ts')).printCompletion(words),
  cleanup: async (flags) => (await import('./cleanup.ts')).cleanup(flags),
}

/** Resolves to the exit code. It never rejects. */
export async function main(argv: readonly string[]): Promise<number> {
  const line = parseCommandLine(argv)
  const notices = 'error' in line ? line.error.notices : line.notices
  if (notices.length > 0) (await import('./output.ts')).printErrorText(notices.join('\n'))
  if ('error' in line) {
    const { usageErrorText } = await import('./messages.ts')
    const { printErrorText } = await import('./output.ts')
    printErrorText(usageErrorText(line.error))
    return line.error.exitCode
  }
  const { command, flags } = line
  if (flags.help === true) {
    const { helpText } = await import('./help.ts')
    const { page, printText } = await import('./output.ts')
    printText(helpText(command, page()))
    return 0
  }
  if (flags.version === 'true' || flags.version === 'raw') {
    const { versionText } = await import('./messages.ts')
    const { printText } = await import('./output.ts')
    printText(versionText(flags.version))
    return 0
  }
  return runCommand(line)
}

async function runCommand({ command, flags, words }: CommandLine): Promise<number> {
  try {
    await warnOfIgnoredFlags(command, flags)
    return await RUN[command](flags, words)
  } catch (error) {
    const { failureText, nextStep } = await import('./messages.ts')
    const { isErrorTerminal, printErrorText } = await import('./output.ts')
    if (command === 'run') {
      const { formatOf, writeEarlyLine } = await import('./early-lines.ts')
      const err = error instanceof CodedError ? error.message : failureText(error, flags)
      const format = formatOf(error)
      writeEarlyLine({ level: 'error', message: 'command failed', fields: { err }, format })
      const advice = error instanceof CodedError ? error.advice : undefined
      if (advice !== undefined) {
        // A command in it has to be readable, so it stands without quotes.
        writeEarlyLine({ level: 'error', message: advice, unstructured: true, format })
        return USAGE_EXIT_CODE[command]
      }
    } else printErrorText(`kube-ipvs ${command}: ${failureText(error, flags)}`)
    const step = nextStep(error)
    if (step !== undefined && (command !== 'run' || isErrorTerminal())) printErrorText(step)
    return USAGE_EXIT_CODE[command]
  }
}

/** The daemon logs it with its other warnings. */
async function warnOfIgnoredFlags(command: CommandName, flags: FlagValues): Promise<void> {
  if (command === 'run' || flags.config === undefined) return
  const { flagsWithoutEffect } = await import('./settings.ts')
  const ignored = flagsWithoutEffect(flags)
  if (ignored.length === 0) return
  const { printErrorText } = await import('./output.ts')
  printErrorText(`kube-ipvs ${command}: with --config these flags have no effect: ${ignored.join(', ')}`)
}
