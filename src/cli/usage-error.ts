/**
 * What a command line that makes no sense gets on standard error: how to call the program, what was probably meant, and
 * last, where it is seen, the mistake in the words of kube-proxy.
 */
import { programOf, type UsageError } from './command-line.ts'

/** kube-proxy prints all of its help here; it fills a screen, so we name the way to it. */
export function usageErrorText({ command, message, showUsage, suggestion }: UsageError): string {
  const error = `Error: ${message}\n`
  const hint = suggestion === undefined ? '' : `Did you mean ${suggestion}?\n`
  if (!showUsage) return hint === '' ? error : `${hint}\n${error}`
  const program = programOf(command)
  return `Usage:\n  ${program} [flags]\n  ${program} --help lists the flags.\n${hint === '' ? '' : `  ${hint}`}\n${error}`
}
