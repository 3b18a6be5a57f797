/**
 * The modules of the kernel in this repository: a folder with one folder `RELEASE/`, as modprobe
 * expects it at /lib/modules. All files of modules lie side by side in it, and `modules.load` names
 * them in an order in which each comes after those that it needs.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The file that names the modules which a guest loads when it boots, a name on a line. */
export const LOAD_LIST = 'modules.load'

/**
 * One sum of the names and contents of all files.
 * @param {string} folder @returns {string}
 */
export function sumOfModules(folder) {
  const sum = createHash('sha256')
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  for (const file of files.toSorted()) {
    const content = readFileSync(file)
    sum.update(`${file.slice(folder.length)}\0${content.length}\0`).update(content)
  }
  return sum.digest('hex')
}

/**
 * The modules of a `modules.dep`, each after those that it needs. depmod names for each module all
 * that it needs, so a module that is needed has a shorter list.
 * @param {string} dependencies the text: `a.ko: b.ko c.ko` @returns {string[]}
 */
export function loadOrder(dependencies) {
  const lines = dependencies.split('\n').filter((line) => line !== '')
  const modules = lines.map((line) => {
    const [file = '', needed = ''] = line.split(':')
    return { name: file.replace(/\.ko$/, ''), needs: needed.split(' ').filter((one) => one !== '').length }
  })
  return modules.toSorted((a, b) => a.needs - b.needs || (a.name < b.name ? -1 : 1)).map(({ name }) => name)
}
