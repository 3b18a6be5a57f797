/**
 * Runs test files one after the other in this process: `node dev/testing/batch.ts FILE...`. Each file is a suite with its path as its name, so that
 * hooks of a file concern only that file. After each file the surroundings must be as they were before it (surroundings.ts).
 */
import { after, before, describe } from 'node:test'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Surroundings } from './surroundings.ts'

for (const file of process.argv.slice(2))
  describe(file, async () => {
    let earlier: Surroundings
    before(() => {
      earlier = new Surroundings()
    })
    // Parts of the recorded cases differ in a query: `FILE?QUERY`.
    const [path = '', query = ''] = file.split('?')
    await import(`${pathToFileURL(resolve(path)).href}${query === '' ? '' : `?${query}`}`)
    // Hooks run in the order of their registration, so this one follows those of the file.
    after(async () => {
      const left = await earlier.leftBehind()
      if (left.length > 0) throw new Error(`the file leaves behind: ${left.join('; ')}`)
    })
  })
