/** The completion scripts in the shells themselves: each completes a line, as the user's Tab does. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { completionScript } from '../../src/cli/completion.ts'
import { COMMANDS, type Shell, SHELLS } from '../../src/start/commands.ts'
import { FLAGS } from '../../src/start/flags.ts'
import { needs } from '../kernel/needs.ts'

let folder = ''
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-completion-'))
  for (const shell of SHELLS) writeFileSync(join(folder, shell), completionScript(shell))
})
after(() => rmSync(folder, { recursive: true }))

/** Lines, and the last words that must and must not be offered for them. */
const ROWS: readonly (readonly [line: string, offered: readonly string[], notOffered: readonly string[]])[] = [
  ['kube-ipvs st', ['status'], ['diff', 'cleanup']],
  ['kube-ipvs ', ['status', 'diff', 'doctor', 'cleanup', 'help'], ['run']],
  ['kube-ipvs status --o', ['--output'], ['--once']],
  ['kube-ipvs --on', ['--once'], ['--output']],
  ['kube-ipvs status --output ', ['text', 'json'], ['--output', 'status']],
  ['kube-ipvs --output json st', ['status'], ['json']],
  ['kube-ipvs completion ', ['bash', 'zsh', 'fish'], ['status', '--help']],
  ['kube-ipvs cleanup --dr', ['--dry-run'], ['--drain-deadline']],
]

/** What a shell offers for a line. */
const COMPLETE: Readonly<Record<'bash' | 'fish', (line: string) => string[]>> = {
  bash: (line) => {
    const script = `source ${join(folder, 'bash')}; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kube_ipvs; printf '%s\\n' "\${COMPREPLY[@]}"`
    return lines(execFileSync('bash', ['--norc', '-c', script, 'bash', ...line.split(' ')], { encoding: 'utf8' }))
  },
  fish: (line) => {
    const script = `source ${join(folder, 'fish')}; complete -C "$argv"`
    return lines(execFileSync('fish', ['--no-config', '-c', script, '--', line], { encoding: 'utf8' }))
  },
}

it('bash does not take the value of a flag for a command', () => {
  assert.deepEqual(COMPLETE.bash('kube-ipvs --manifests diff st'), ['status', ''])
})

function lines(output: string): string[] {
  return output.split('\n').map((line) => line.split('\t')[0] ?? '')
}

for (const shell of ['bash', 'fish'] as const)
  describe(shell, needs(`program:${shell}`), () => {
    for (const [line, offered, notOffered] of ROWS)
      it(line, () => {
        const found = COMPLETE[shell](line)
        for (const word of offered) assert.ok(found.includes(word), `${word} in ${found.join(' ')}`)
        for (const word of notOffered) assert.ok(!found.includes(word), `${word} in ${found.join(' ')}`)
      })
  })

describe('zsh', needs('program:zsh'), () => {
  it('reads the script', () => {
    execFileSync('zsh', ['-f', '-n', join(folder, 'zsh')])
  })
})

describe('each script', () => {
  const spelled: Readonly<Record<Shell, (name: string) => string>> = {
    bash: (name) => `--${name}`,
    zsh: (name) => `--${name}`,
    fish: (name) => `-l ${name} `,
  }
  for (const shell of SHELLS)
    it(`${shell} has every command and every flag that has an effect`, () => {
      const text = completionScript(shell)
      for (const command of COMMANDS) assert.ok(text.includes(command), command)
      for (const { name, group, deprecated } of Object.values(FLAGS))
        assert.equal(
          text.includes(spelled[shell](name)),
          (group !== 'unused' && deprecated === undefined) || isPrefixOfAnother(name),
          name,
        )
    })
})

/** A flag without effect whose name begins the name of one with an effect cannot be told from it in the text. */
function isPrefixOfAnother(name: string): boolean {
  return Object.values(FLAGS).some(
    (flag) =>
      flag.group !== 'unused' && flag.deprecated === undefined && flag.name !== name && flag.name.startsWith(name),
  )
}
