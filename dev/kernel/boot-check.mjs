/**
 * Whether user-mode Linux runs here at all: boots it to a first process that prints a word and powers off. A container may
 * forbid ptrace and seccomp, or allow no execution where the guest's memory must lie.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { finish, tail } from '../progress.mjs'

const BOOT_MS = 60_000
const WORD = 'user-mode Linux is up'

/**
 * Undefined when the kernel boots, else one sentence that says why not and what to do.
 * @param {{ kernel: string, memoryFolder: string }} choice
 */
export async function whyItDoesNotBoot({ kernel, memoryFolder }) {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-boot-'))
  try {
    // reboot(2) with LINUX_REBOOT_CMD_POWER_OFF
    const init = `#!/usr/bin/perl\n$| = 1; print "${WORD}\\n"; syscall(169, 0xfee1dead, 672274793, 0x4321fedc, 0);\n`
    writeFileSync(join(folder, 'init'), init, { mode: 0o755 })
    const root = ['mem=128M', 'seccomp=auto', 'root=/dev/root', 'rootfstype=hostfs', 'rootflags=/', 'ro', 'quiet']
    const args = [...root, 'con=null', 'con0=null,fd:1', `init=${join(folder, 'init')}`]
    const env = { PATH: process.env.PATH, HOME: folder, TMPDIR: memoryFolder }
    const { output } = await finish(kernel, args, { env, timeoutMs: BOOT_MS })
    if (output.includes(WORD)) return undefined
    return `user-mode Linux does not boot here (${tail(output, 1).trim() || 'it printed nothing'}); a container must allow ptrace or seccomp`
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
