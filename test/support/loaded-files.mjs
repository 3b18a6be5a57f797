/**
 * For `node --import`: writes which files the process has loaded into the file that KUBE_IPVS_LOADED_FILES names, when it ends. One JSON array of
 * paths.
 */
import { writeFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'

const loaded = []
registerHooks({
  load(url, context, next) {
    if (url.startsWith('file:')) loaded.push(fileURLToPath(url))
    return next(url, context)
  },
})
process.on('exit', () => writeFileSync(process.env['KUBE_IPVS_LOADED_FILES'] ?? '', JSON.stringify(loaded)))
