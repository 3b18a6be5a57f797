/** Group: each flag of kube-proxy's --help exists here, takes a value where it does there, and stands in our --help. */
import { readFileSync } from 'node:fs'
import { FLAGS, type Flag } from '../../src/cli/flags.ts'
import { runProgram } from './program.ts'
import type { Recordings, SurfaceCase } from './surface-case.ts'

const FILE = 'config/flags.txt'
/** `      --bind-address ip      Overrides…`, `  -v, --v Level   number…`; what takes no value has two spaces behind its name. */
const LINE = /^ {2,6}(?:-(\w), )?--([\w-]+)(\[=\w+\])?(?: (?=\S))?(\S*)/

export const FLAG_NAMES: readonly Recordings[] = [{ path: FILE, read: flagNames }]

function flagNames(file: string): SurfaceCase[] {
  const flags: readonly Flag[] = Object.values(FLAGS)
  let help: Promise<string> | undefined
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line) => LINE.exec(line) ?? [])
    .filter((part): part is string => typeof part === 'string' && /^ {2,6}-/.test(part))
    .map((text) => {
      const [, short, name = '', , type = ''] = LINE.exec(text) ?? []
      return {
        name: `${FILE} --${name}`,
        run: async () => {
          const flag = flags.find((one) => one.name === name && one.commands.includes('run'))
          if (flag === undefined) return [`there is no flag --${name}`]
          help ??= runProgram(['--help'], {}).then(({ stdout }) => stdout)
          const takesValue = flag.kind !== 'boolean' && flag.kind !== 'version'
          return [
            ...(flag.short === short ? [] : [`the short form is ${flag.short ?? 'none'}, not ${short ?? 'none'}`]),
            ...(takesValue === (type !== '') || name === 'version'
              ? []
              : [takesValue ? 'it takes a value' : 'it takes no value']),
            ...((await help).includes(`--${name}`) ? [] : ['--help does not name it']),
          ]
        },
      }
    })
}
