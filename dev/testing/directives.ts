/** What the first comment of a test file tells the runner about it, and the names that follow from it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * `@alone`: a file of the stage on this machine has a process of its own, and a kernel test runs in
 * a guest where no other file runs at the same time. `@bare`: a kernel test runs in a bare guest
 * (see `KernelCommand.isBare`), and nowhere else. `@also-bare`: it runs there too, as `FILE?bare`.
 */
export type Directive = '@alone' | '@bare' | '@also-bare'

/** The end of the name under which a file runs in a bare guest too. */
export const BARE = '?bare'

/** Whether the first comment has the word. `file` may have a query (`FILE?QUERY`). */
export function hasDirective(file: string, directive: Directive, folder: string): boolean {
  const [comment = ''] = readFileSync(join(folder, file.replace(/\?.*/, '')), 'utf8').split('*/', 1)
  return comment.split(/\s+/).includes(directive)
}

/** Under its own name, and once more for a bare guest if it says so. */
export function runsOf(file: string, folder: string): readonly string[] {
  return hasDirective(file, '@also-bare', folder) ? [file, `${file}${BARE}`] : [file]
}

/** Whether it runs in a bare guest. */
export function isForBareGuest(file: string, folder: string): boolean {
  return file.endsWith(BARE) || hasDirective(file, '@bare', folder)
}
