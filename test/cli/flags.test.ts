import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type CommandLine, type UsageError, parseCommandLine } from '../../src/cli/command-line.ts'
import { COMMANDS, type CommandName, FLAGS, type Flag, type FlagValues } from '../../src/cli/flags.ts'
import { COMMAND_HELP, helpText } from '../../src/cli/help.ts'

const ALL: readonly Flag[] = Object.values(FLAGS)

test('parseCommandLine reads flags as pflag does', () => {
  const rows: readonly (readonly [argv: readonly string[], command: CommandName, flags: FlagValues])[] = [
    [[], 'run', {}],
    [['--config=c.yaml', '--hostname-override=n1'], 'run', { config: 'c.yaml', hostnameOverride: 'n1' }],
    [['--config', 'c.yaml'], 'run', { config: 'c.yaml' }],
    [['--config=a', '--config=b'], 'run', { config: 'b' }],
    [['--config='], 'run', { config: '' }],
    [['--config=a=b'], 'run', { config: 'a=b' }],
    [['--once'], 'run', { once: true }],
    [['--once=false'], 'run', { once: false }],
    [['--once=T', '--help=0'], 'run', { once: true, help: false }],
    [['-v', '2'], 'run', { verbosity: 2 }],
    [['-v2'], 'run', { verbosity: 2 }],
    [['-v=2'], 'run', { verbosity: 2 }],
    [['--v=4'], 'run', { verbosity: 4 }],
    [['--v', '0x10'], 'run', { verbosity: 16 }],
    [['--proxy_mode=ipvs'], 'run', { proxyMode: 'ipvs' }],
    [['--hostname_override', 'x'], 'run', { hostnameOverride: 'x' }],
    [['--hostname-override', '--once'], 'run', { hostnameOverride: '--once' }],
    [['--drain-deadline=1m30s'], 'run', { drainDeadline: 90_000 }],
    [['-o', 'json', '-h'], 'run', { output: 'json', help: true }],
    [['', '--once', ''], 'run', { once: true }],
    [['status', '--output=json'], 'status', { output: 'json' }],
    [['--output=json', 'status'], 'status', { output: 'json' }],
    [['-ojson', 'diff'], 'diff', { output: 'json' }],
    [['diff', '--manifests', 'diff'], 'diff', { manifests: 'diff' }],
    [['cleanup', '--dry-run'], 'cleanup', { dryRun: true }],
    [['run', '--once'], 'run', { once: true }],
  ]
  for (const [argv, command, flags] of rows)
    assert.deepEqual(parseCommandLine(argv), { command, flags }, argv.join(' '))
})

test('parseCommandLine names one mistake and the way to help', () => {
  const rows: readonly (readonly [argv: readonly string[], exitCode: number, message: string])[] = [
    [['--proxy-mod=x'], 1, 'unknown flag: --proxy-mod\nDid you mean --proxy-mode?\nSee kube-ipvs --help'],
    [['--Once'], 1, 'unknown flag: --Once\nDid you mean --once?\nSee kube-ipvs --help'],
    [['--no-such-flag=1'], 1, 'unknown flag: --no-such-flag\nSee kube-ipvs --help'],
    [['--__proto__=1'], 1, 'unknown flag: --__proto__\nSee kube-ipvs --help'],
    [['-x'], 1, "unknown shorthand flag: 'x' in -x\nSee kube-ipvs --help"],
    [
      ['-proxy-mode=ipvs'],
      1,
      "unknown shorthand flag: 'p' in -proxy-mode=ipvs\nDid you mean --proxy-mode?\nSee kube-ipvs --help",
    ],
    [['--config'], 1, 'flag needs an argument: --config\nSee kube-ipvs --help'],
    [['--once='], 1, 'invalid argument "" for "--once" flag: must be true or false\nSee kube-ipvs --help'],
    [['--once', 'false'], 1, 'unexpected argument "false"\nDid you mean --once=false?\nSee kube-ipvs --help'],
    [['-v=abc'], 1, 'invalid argument "abc" for "-v, --v" flag: must be a whole number from 0\nSee kube-ipvs --help'],
    [['-v=-1'], 1, 'invalid argument "-1" for "-v, --v" flag: must be a whole number from 0\nSee kube-ipvs --help'],
    [
      ['--drain-deadline=30'],
      1,
      'invalid argument "30" for "--drain-deadline" flag: time: missing unit in duration "30"\nSee kube-ipvs --help',
    ],
    [
      ['--drain-deadline=-1s'],
      1,
      'invalid argument "-1s" for "--drain-deadline" flag: must not be negative\nSee kube-ipvs --help',
    ],
    [['difff'], 1, 'unknown command "difff"\nDid you mean diff?\nSee kube-ipvs --help'],
    [['--', 'foo'], 1, 'unknown command "foo"\nSee kube-ipvs --help'],
    [['status', 'foo'], 1, 'unexpected argument "foo"\nSee kube-ipvs status --help'],
    [['diff', '--nope'], 2, 'unknown flag: --nope\nSee kube-ipvs diff --help'],
    [['--nope', 'diff'], 2, 'unknown flag: --nope\nSee kube-ipvs diff --help'],
    [['diff', '--dry-run'], 2, '--dry-run is a flag of cleanup, not of diff\nSee kube-ipvs diff --help'],
    [
      ['diff', '--output=yaml'],
      2,
      'invalid argument "yaml" for "-o, --output" flag: must be text or json\nSee kube-ipvs diff --help',
    ],
    [['--help', '--nope'], 1, 'unknown flag: --nope\nSee kube-ipvs --help'],
  ]
  for (const [argv, exitCode, message] of rows) {
    const parsed: CommandLine | { readonly error: UsageError } = parseCommandLine(argv)
    assert.ok('error' in parsed, argv.join(' '))
    assert.deepEqual([parsed.error.exitCode, parsed.error.message], [exitCode, message], argv.join(' '))
  }
})

test('parseCommandLine survives any arguments', () => {
  const word = fc.oneof(
    fc.string(),
    fc.constantFrom('--', '-', '---', '--=', '-=', '-v', '--v=', '-hv', '--no-once', ...COMMANDS),
    fc.constantFrom(...ALL.map(({ name }) => `--${name}`)),
  )
  fc.assert(
    fc.property(fc.array(word, { maxLength: 6 }), (argv) => {
      const parsed = parseCommandLine(argv)
      if ('error' in parsed) assert.ok(parsed.error.message.split('\n').at(-1)?.startsWith('See kube-ipvs'))
      else assert.ok(COMMANDS.includes(parsed.command))
    }),
  )
})

test('FLAGS names each flag once and each command offers help and output', () => {
  assert.equal(new Set(ALL.map(({ name }) => name)).size, ALL.length)
  const letters = ALL.flatMap(({ short }) => (short === undefined ? [] : [short]))
  assert.equal(new Set(letters).size, letters.length)
  for (const command of COMMANDS) {
    for (const name of ['help', 'output']) {
      assert.ok(
        ALL.some((flag) => flag.name === name && flag.commands.includes(command)),
        `${command} --${name}`,
      )
    }
  }
})

test('helpText teaches its command', () => {
  for (const command of COMMANDS) {
    const text = helpText(command)
    for (const flag of ALL) {
      assert.equal(
        text.includes(`--${flag.name}`),
        flag.commands.includes(command) || mentions(command, flag),
        `${command} ${flag.name}`,
      )
    }
    assert.ok(COMMAND_HELP[command].examples.length >= 2)
    assert.match(text, /\nUsage:\n {2}kube-ipvs[^]*\nFlags:\n[^]*\nExamples:\n[^]*\nExit codes:\n {2}0 /)
    for (const line of text.split('\n')) assert.ok(line.length <= 100, line)
    for (const [example] of COMMAND_HELP[command].examples) {
      const parsed = parseCommandLine(example.split(' ').slice(1))
      assert.ok(!('error' in parsed) && parsed.command === command, example)
    }
  }
})

/** A flag that another one's help speaks of. */
function mentions(command: CommandName, flag: Flag): boolean {
  return ALL.some((other) => other.commands.includes(command) && other.help.includes(`--${flag.name}`))
}
