/**
 * Installs what package-lock.json names into node_modules, without running install scripts. It
 * compares npm's own record in node_modules, so a folder that was installed by hand counts as well.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Unmet, finish, projectFolder, say, tail } from './progress.mjs'

/** Installs with `npm ci` if a package is missing; returns quickly otherwise. */
export async function ensureDependencies() {
  if (dependenciesArePresent()) return
  const startedAt = Date.now()
  say('Installing npm dependencies (npm ci, install scripts blocked) ...')
  let installed = await npm('ci')
  // npm 11 refuses a lock file that lacks optional packages of other platforms, as one made with a
  // mirror without them does. `npm install` accepts it; the check below makes sure that only
  // packages of the lock file were installed.
  if (installed.code !== 0 && installed.output.includes('EUSAGE')) installed = await npm('install', '--no-save')
  if (installed.code !== 0)
    throw new Unmet(`npm failed with exit code ${installed.code}:\n${tail(installed.output, 40)}`)
  const differences = differencesFromLock()
  if (differences.length > 0)
    throw new Unmet(`node_modules is not what package-lock.json says: ${differences.slice(0, 5).join(', ')}`)
  if (!existsSync(join(projectFolder, 'node_modules/.bin/node')))
    throw new Unmet(
      `there is no package with Node 24 for ${process.platform} ${process.arch}; kube-ipvs runs on Linux x64 and arm64`,
    )
  say(`Installed npm dependencies in ${Math.round((Date.now() - startedAt) / 1000)} s.`)
}

function dependenciesArePresent() {
  return existsSync(join(projectFolder, 'node_modules/.bin/node')) && differencesFromLock().length === 0
}

/** Paths of packages that are missing, have another version or content, or are not in the lock file. */
function differencesFromLock() {
  const record = join(projectFolder, 'node_modules/.package-lock.json')
  if (!existsSync(record)) return ['node_modules']
  const wanted = JSON.parse(readFileSync(join(projectFolder, 'package-lock.json'), 'utf8')).packages
  const present = JSON.parse(readFileSync(record, 'utf8')).packages
  const missing = Object.keys(wanted).filter(
    // Optional packages are those for another platform.
    (path) => path !== '' && present[path] === undefined && wanted[path].optional !== true,
  )
  const other = Object.keys(present).filter(
    (path) => wanted[path]?.version !== present[path].version || wanted[path].integrity !== present[path].integrity,
  )
  return [...missing, ...other]
}

/**
 * Runs the npm that started this program, or the one in PATH; never on the Node in node_modules,
 * which npm may delete.
 * @param {string[]} command
 */
function npm(...command) {
  const flags = ['--ignore-scripts', '--loglevel=error', '--no-audit', '--no-fund', '--no-progress']
  const { npm_execpath: script, npm_node_execpath: node, PATH = '' } = process.env
  const folders = PATH.split(':').filter((folder) => !folder.includes('node_modules'))
  const options = { cwd: projectFolder, env: { ...process.env, PATH: folders.join(':') } }
  if (script !== undefined && node !== undefined && !node.includes('node_modules/node-'))
    return finish(node, [script, ...command, ...flags], options)
  return finish('npm', [...command, ...flags], options)
}
