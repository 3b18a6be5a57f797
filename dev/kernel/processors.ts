/** The processors of this machine that this process may use. */
import { readFileSync } from 'node:fs'

/** `0-2,5` as numbers. */
export function parseProcessorList(text: string): number[] {
  return text
    .trim()
    .split(',')
    .filter((range) => range !== '')
    .flatMap((range) => {
      const [from = 0, to = from] = range.split('-').map(Number)
      return Array.from({ length: to - from + 1 }, (_, index) => from + index)
    })
}

/** Their numbers, at least one. */
export function allowedProcessors(): readonly number[] {
  const [, list = '0'] = /^Cpus_allowed_list:\s*(.*)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
  return parseProcessorList(list)
}
