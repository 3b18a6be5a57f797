/**
 * `npm start`, `npm test`, `npm run bench` on a machine that may have nothing installed: provides
 * npm dependencies, Debian packages and a kernel with IPVS, then runs the program on the Node that
 * the dependencies contain. It runs before node_modules exists and on Node 20, so it is plain
 * JavaScript with built-ins only; it prints nothing on stdout, where the program's JSON goes.
 */
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { join } from 'node:path'
import { ensureDependencies } from './dependencies.mjs'
import { helpFor } from './help.mjs'
import { chooseKernel } from './kernel/choose.mjs'
import { ensurePackages } from './packages.mjs'
import { Unmet, projectFolder, say } from './progress.mjs'

const programs = {
  demo: { file: 'dev/demo.ts', tools: ['ip', 'iptables'] },
  test: {
    file: 'dev/test.ts',
    tools: ['ip', 'ipvsadm', 'iptables', 'ipset', 'conntrack', 'nft', 'sysctl', 'gcc', '/usr/include/stdio.h'],
    // A kernel whose IPVS is a module; without it the tests in test/kernel/modules report the need.
    optionalTools: ['linux.uml', 'modprobe', 'zsh', 'fish'],
  },
  bench: {
    file: 'dev/bench.ts',
    tools: ['ip', 'ipvsadm', 'iptables', 'ipset', 'gcc', '/usr/include/stdio.h'],
  },
  surfaces: { file: 'test/surfaces/main.ts', tools: [] },
  helm: { file: 'dev/helm/program.ts', tools: [] },
  release: { file: 'dev/release.ts', tools: [] },
  evidence: { file: 'dev/evidence.ts', tools: [] },
  packets: {
    file: 'test/packets/main.ts',
    tools: ['ip', 'ipvsadm', 'iptables', 'ipset', 'conntrack', 'nft', 'sysctl'],
  },
  oracle: { file: 'test/oracle/main.ts', tools: ['ip', 'ipvsadm', 'iptables', 'ipset', 'conntrack', 'nft', 'sysctl'] },
}

const [name = '', ...args] = process.argv.slice(2)
try {
  if (name === 'dependencies') await ensureDependencies()
  else if (!Object.hasOwn(programs, name))
    throw new Unmet(
      `unknown program ${name}: demo, test, bench, oracle, packets, surfaces, helm, release, evidence or dependencies`,
    )
  else if (helpFor[name] !== undefined && (args.includes('--help') || args.includes('-h'))) console.log(helpFor[name])
  else await run(programs[name])
} catch (error) {
  if (!(error instanceof Unmet)) throw error
  say(error.message)
  process.exitCode = 1
}

/** @param {{ file: string, tools: string[], optionalTools?: string[] }} program */
async function run(program) {
  await ensureDependencies()
  const hostOnly =
    ['surfaces', 'helm', 'release', 'evidence'].includes(name) || (name === 'test' && args.includes('--host-only'))
  const wantsKernel = process.env.KUBE_IPVS_SKIP_KERNEL !== '1' && !hostOnly
  let chosen = ''
  if (wantsKernel) {
    await ensurePackages(program.tools)
    await ensurePackages(program.optionalTools ?? []).catch((error) => {
      if (!(error instanceof Unmet)) throw error
      say(error.message)
    })
    chosen = JSON.stringify(await chooseKernel(process.env))
  }
  const node = join(projectFolder, 'node_modules/.bin/node')
  const child = spawn(node, [join(projectFolder, program.file), ...args], {
    stdio: 'inherit',
    env: { ...process.env, KUBE_IPVS_CHOSEN_KERNEL: chosen, KUBE_IPVS_PARENT: String(process.pid) },
  })
  // A terminal sends SIGINT to the whole group, so the program has it already.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal)
    })
  }
  process.exitCode = await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal]))
  })
}
