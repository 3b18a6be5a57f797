/**
 * Runs test files one after the other in this process: `node dev/testing/batch.ts FILE...`. Each
 * file is a suite with its path as its name, so that hooks of a file concern only that file. After
 * each file the surroundings must be as they were before it (surroundings.ts).
 */
import { after, before, describe } from 'node:test'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import fc from 'fast-check'
import { seedOf } from './seed.ts'
import { Surroundings } from './surroundings.ts'

const seed = seedOf(process.env, false)
if (seed !== undefined) fc.configureGlobal({ seed })

// The files are loaded one after the other: a file that waits for a module which another one loads
// would be evaluated in the suite of that one.
const files = process.argv.slice(2)
const loaded = files.map(() => Promise.withResolvers<void>())

for (const [index, file] of files.entries())
  describe(file, async () => {
    let earlier: Surroundings
    before(() => {
      earlier = new Surroundings()
    })
    await inSuite(loaded[index - 1]?.promise)
    // Parts of the recorded cases differ in a query: `FILE?QUERY`.
    const [path = '', query = ''] = file.split('?')
    try {
      await import(`${pathToFileURL(resolve(path)).href}${query === '' ? '' : `?${query}`}`)
    } finally {
      loaded[index]?.resolve()
    }
    // Hooks run in the order of their registration, so this one follows those of the file.
    after(async () => {
      const left = await earlier.leftBehind()
      if (left.length > 0) throw new Error(`the file leaves behind: ${left.join('; ')}`)
    })
    // No test begins before all files are loaded.
    await inSuite(loaded.at(-1)?.promise)
  })

/**
 * The same as a promise of this suite: node:test attributes what follows the `await` of a promise
 * to the suite where that was made.
 */
function inSuite(promise: Promise<void> | undefined): Promise<void> {
  const own = Promise.withResolvers<void>()
  void Promise.resolve(promise).then(own.resolve)
  return own.promise
}
