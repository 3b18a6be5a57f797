/**
 * What a command line that makes no sense gets on standard error: how to call the program, then the mistake, last, where
 * it is seen.
 * What could break: the last line is kube-proxy's own, letter by letter.
 */
import { nearest } from '../values/nearest.ts'
import type { UsageError } from './command-line.ts'

/** kube-proxy prints all of its help here; it fills a screen, so we name the way to it. */
export function usageErrorText({ command, message, showUsage, misspelt }: UsageError): string {
  const error = `Error: ${message}\n`
  if (!showUsage) return error
  const program = command === 'run' ? 'kube-ipvs' : `kube-ipvs ${command}`
  const guess = misspelt === undefined ? undefined : nearest(misspelt.word, misspelt.known)
  const hint = guess === undefined ? '' : `  Did you mean ${guess}?\n`
  return `Usage:\n  ${program} [flags]\n  ${program} --help lists the flags.\n${hint}\n${error}`
}
