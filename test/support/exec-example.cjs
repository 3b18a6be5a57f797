/** Calls execve three times after its own start, once in vain and once in a child; an example for exec-count.test.ts. */
const { spawnSync } = require('node:child_process')
spawnSync('/nowhere/program')
spawnSync('/bin/sh', ['-c', '/bin/true; :'])
