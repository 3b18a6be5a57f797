#!/usr/bin/env node
/**
 * The command `kube-ipvs`: src/main.ts on a Node that can run TypeScript as it is.
 * What could break: this file must run on any Node since 18, so it is plain JavaScript without dependencies.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major > 24 || (major === 24 && minor >= 5)) await import('../src/main.ts')
else rerun(fileURLToPath(new URL('../node_modules/.bin/node', import.meta.url)))

/** @param {string} node */
function rerun(node) {
  if (!existsSync(node)) {
    console.error(
      `kube-ipvs needs Node.js 24.5 or later, this is ${process.versions.node}.\n` +
        `Type \`npm ci\` in ${fileURLToPath(new URL('..', import.meta.url))}: it brings one along (node_modules/.bin/node).`,
    )
    process.exit(1)
  }
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: 'inherit' })
  // A terminal sends SIGINT to both; the others reach only the process they were sent to.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2']) {
    process.on(name, () => {
      if (name !== 'SIGINT' || !process.stdin.isTTY) child.kill(name)
    })
  }
  child.on('error', (error) => {
    console.error(`kube-ipvs: cannot start ${node}: ${error.message}`)
    process.exit(1)
  })
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]))
}
