/**
 * Runs a command that is not the daemon, or answers a wrong command line. The user sees an error as
 * one line that says what is wrong, and a stack only for a bug in this program.
 */
import { type CommandLine, USAGE_EXIT_CODE, type UsageError } from '../start/command-line.ts'
import type { CommandName } from '../start/commands.ts'
import type { FlagValues } from '../start/flags.ts'
import { nextStep } from '../start/next-step.ts'
import { page, printErrorText, printText } from '../start/output.ts'
import { failureText, usageErrorText, versionText } from './messages.ts'

/** A command is loaded when it runs: `--help` needs none of them. */
const RUN: Readonly<Record<CommandName, (flags: FlagValues, words: readonly string[]) => Promise<number>>> = {
  // What the daemon's command line asks for in place of the daemon.
  run: async (flags) =>
    flags.writeConfigTo !== undefined && flags.writeConfigTo !== ''
      ? (await import('./write-configuration.ts')).writeConfiguration(flags, flags.writeConfigTo)
      : (await import('./cleanup.ts')).cleanup(flags),
  status: async (flags, words) => (await import('./status.ts')).status(flags, words),
  explain: async (flags, words) => (await import('./explain.ts')).explain(flags, words),
  top: async (flags, words) => (await import('./top.ts')).top(flags, words),
  drain: async (flags, words) => (await import('./drain.ts')).drain(flags, words),
  doctor: async (flags) => (await import('./doctor.ts')).doctor(flags),
  diff: async (flags) => (await import('./diff.ts')).diff(flags),
  completion: async (_flags, words) => (await import('./completion.ts')).printCompletion(words),
  cleanup: async (flags) => (await import('./cleanup.ts')).cleanup(flags),
}

/** Resolves to the exit code. It never rejects. */
export async function main(line: CommandLine | { readonly error: UsageError }): Promise<number> {
  const notices = 'error' in line ? line.error.notices : line.notices
  if (notices.length > 0) printErrorText(notices.join('\n'))
  if ('error' in line) {
    printErrorText(usageErrorText(line.error))
    return line.error.exitCode
  }
  const { command, flags } = line
  if (flags.help === true) {
    const { helpText } = await import('./help.ts')
    printText(helpText(command, page()))
    return 0
  }
  if (flags.version === 'true' || flags.version === 'raw') {
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
    if (command === 'run') return (await import('../start/failure.ts')).reportFailure(error)
    printErrorText(`kube-ipvs ${command}: ${failureText(error, flags)}`)
    const step = nextStep(error)
    if (step !== undefined) printErrorText(step)
    return USAGE_EXIT_CODE[command]
  }
}

/** The daemon logs it with its other warnings. */
async function warnOfIgnoredFlags(command: CommandName, flags: FlagValues): Promise<void> {
  if (command === 'run' || flags.config === undefined) return
  const { flagsWithoutEffect } = await import('../start/settings.ts')
  const ignored = flagsWithoutEffect(flags)
  if (ignored.length === 0) return
  printErrorText(`kube-ipvs ${command}: with --config these flags have no effect: ${ignored.join(', ')}`)
}
