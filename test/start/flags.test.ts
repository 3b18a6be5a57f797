import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type CommandLine, type UsageError, parseCommandLine } from '../../src/start/command-line.ts'
import { COMMANDS, type CommandName } from '../../src/start/commands.ts'
import type { Flag } from '../../src/start/flag.ts'
import { FLAGS, type FlagValues } from '../../src/start/flags.ts'
import { COMMAND_HELP } from '../../src/cli/command-help.ts'
import { helpText } from '../../src/cli/help.ts'
import { usageErrorText } from '../../src/cli/messages.ts'
import type { Style } from '../../src/start/style.ts'

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
    [['-v', '2'], 'run', { 'logging.verbosity': 2 }],
    [['help'], 'run', { help: true }],
    [['help', 'diff'], 'diff', { help: true }],
    [['-v2'], 'run', { 'logging.verbosity': 2 }],
    [['-v=2'], 'run', { 'logging.verbosity': 2 }],
    [['--v=4'], 'run', { 'logging.verbosity': 4 }],
    [['-hv4'], 'run', { help: true, 'logging.verbosity': 4 }],
    [['--proxy_mode=ipvs'], 'run', { mode: 'ipvs' }],
    [['--hostname_override', 'x'], 'run', { hostnameOverride: 'x' }],
    [['--hostname-override', '--once'], 'run', { hostnameOverride: '--once' }],
    [['--drain-deadline=1m30s'], 'run', { 'kubeIPVS.drainDeadline': 90_000 }],
    [['--oom-score-adj=-0x10'], 'run', { oomScoreAdj: -16 }],
    [['--kube-api-qps=2.5'], 'run', { 'clientConnection.qps': 2.5 }],
    [
      ['--nodeport-addresses=10.0.0.0/8', '--nodeport-addresses=11.0.0.0/8,"a,b"'],
      'run',
      { nodePortAddresses: ['10.0.0.0/8', '11.0.0.0/8', 'a,b'] },
    ],
    [['--allowed-external-ips='], 'run', { 'kubeIPVS.allowedExternalIPs': [] }],
    [
      ['--allowed-load-balancer-ips=10.0.0.0/8,fd00::/8'],
      'run',
      { 'kubeIPVS.allowedLoadBalancerIPs': ['10.0.0.0/8', 'fd00::/8'] },
    ],
    [['--allow-protected-external-ips'], 'run', { 'kubeIPVS.allowProtectedExternalIPs': true }],
    [['--max-frontends-per-service=20'], 'run', { 'kubeIPVS.maxFrontendsPerService': 20 }],
    [['--max-real-servers=500000'], 'run', { 'kubeIPVS.maxRealServers': 500_000 }],
    [['--feature-gates=A=true, B = 0', '--feature-gates=A=f'], 'run', { featureGates: { A: false, B: false } }],
    [
      ['--vmodule=a=1,b*=2'],
      'run',
      {
        'logging.vmodule': [
          { filePattern: 'a', verbosity: 1 },
          { filePattern: 'b*', verbosity: 2 },
        ],
      },
    ],
    [['--version'], 'run', { version: 'true' }],
    [['--version=raw'], 'run', { version: 'raw' }],
    [['--version=v1.37.2-x'], 'run', { version: 'v1.37.2-x' }],
    [['-o', 'json', '-h'], 'run', { output: 'json', help: true }],
    [['--help', 'foo'], 'run', { help: true }],
    [['', '--once', ''], 'run', { once: true }],
    [['status', '--output=json'], 'status', { output: 'json' }],
    [['--output=json', 'status'], 'status', { output: 'json' }],
    [['-ojson', 'diff'], 'diff', { output: 'json' }],
    [['diff', '--manifests', 'diff'], 'diff', { manifests: 'diff' }],
    [['cleanup', '--dry-run'], 'cleanup', { dryRun: true }],
    [['doctor', '--from=a', '-ojson'], 'doctor', { from: 'a', output: 'json' }],
    [['doctor', '--bundle', 'a.gz', '--ipvs-strict-arp'], 'doctor', { bundle: 'a.gz', 'ipvs.strictARP': true }],
    [['run', '--once'], 'run', { once: true }],
  ]
  for (const [argv, command, flags] of rows)
    assert.deepEqual(parseCommandLine(argv), { command, flags, words: [], notices: [] }, argv.join(' '))
})

test('words beside flags go to the commands that take some, and empty ones are left out', () => {
  const rows: readonly (readonly [argv: readonly string[], words: readonly string[]])[] = [
    [['status', 'demo/web'], ['demo/web']],
    [
      ['status', 'demo/web', '-o', 'json', '', '--', '--x'],
      ['demo/web', '--x'],
    ],
    [
      ['-ojson', 'status', 'a/b', 'c/d'],
      ['a/b', 'c/d'],
    ],
    [['status', '--', 'status'], ['status']],
    [['status', ''], []],
  ]
  for (const [argv, words] of rows) {
    const parsed = parseCommandLine(argv)
    assert.ok(!('error' in parsed), argv.join(' '))
    assert.deepEqual([parsed.command, parsed.words], ['status', words], argv.join(' '))
  }
})

test('parseCommandLine reports one mistake in the words of kube-proxy', () => {
  const rows: readonly (readonly [argv: readonly string[], exitCode: number, message: string])[] = [
    [['--Once'], 1, 'unknown flag: --Once'],
    [['--no-such-flag=1'], 1, 'unknown flag: --no-such-flag'],
    [['--__proto__=1'], 1, 'unknown flag: --__proto__'],
    [['--=x'], 1, 'bad flag syntax: --=x'],
    [['---x'], 1, 'bad flag syntax: ---x'],
    [['-x'], 1, "unknown shorthand flag: 'x' in -x"],
    [['-proxy-mode=ipvs'], 1, "unknown shorthand flag: 'p' in -proxy-mode=ipvs"],
    [['--config'], 1, 'flag needs an argument: --config'],
    [['--write_config_to'], 1, 'flag needs an argument: --write_config_to'],
    [['-v'], 1, "flag needs an argument: 'v' in -v"],
    [['--once='], 1, 'invalid argument "" for "--once" flag: strconv.ParseBool: parsing "": invalid syntax'],
    [['completion'], 1, '"kube-ipvs completion" needs SHELL, one of bash, zsh, fish, got []'],
    [['completion', 'csh'], 1, '"kube-ipvs completion" takes a SHELL, one of bash, zsh, fish, got ["csh"]'],
    [['completion', 'bash', 'zsh'], 1, '"kube-ipvs completion" takes one SHELL, got ["bash" "zsh"]'],
    [['completion'], 1, '"kube-ipvs completion" needs SHELL, one of bash, zsh, fish, got []'],
    [['completion', 'csh'], 1, '"kube-ipvs completion" takes a SHELL, one of bash, zsh, fish, got ["csh"]'],
    [['completion', 'bash', 'zsh'], 1, '"kube-ipvs completion" takes one SHELL, got ["bash" "zsh"]'],
    [['--once', 'false'], 1, '"kube-ipvs" does not take any arguments, got ["false"]'],
    [['-v=abc'], 1, 'invalid argument "abc" for "-v, --v" flag: strconv.ParseUint: parsing "abc": invalid syntax'],
    [['-v='], 1, 'invalid argument "=" for "-v, --v" flag: strconv.ParseUint: parsing "=": invalid syntax'],
    [
      ['--drain-deadline=30'],
      1,
      'invalid argument "30" for "--drain-deadline" flag: time: missing unit in duration "30"',
    ],
    [
      ['--conntrack-min=4294967296'],
      1,
      'invalid argument "4294967296" for "--conntrack-min" flag: strconv.ParseInt: parsing "4294967296": value out of range',
    ],
    [
      ['--healthz-bind-address=[::1'],
      1,
      `invalid argument "[::1" for "--healthz-bind-address" flag: "[::1" is not in a valid format (ip or ip:port): address [::1: missing ']' in address`,
    ],
    [
      ['--nodeport-addresses=a"b'],
      1,
      String.raw`invalid argument "a\"b" for "--nodeport-addresses" flag: parse error on line 1, column 2: bare " in non-quoted-field`,
    ],
    [
      ['--vmodule=a=b'],
      1,
      'invalid argument "a=b" for "--vmodule" flag: parsing verbosity in "a=b": strconv.ParseUint: parsing "b": invalid syntax',
    ],
    [
      ['--version=v1.2.3'],
      1,
      'invalid argument "v1.2.3" for "--version" flag: version "v1.2.3" must match major/minor/patch of default version "v1.37.2"',
    ],
    [['difff'], 1, '"kube-ipvs" does not take any arguments, got ["difff"]'],
    [['--', 'status'], 1, '"kube-ipvs" does not take any arguments, got ["status"]'],
    [['foo', ''], 1, '"kube-ipvs" does not take any arguments, got ["foo" ""]'],
    [['cleanup', 'foo'], 1, '"kube-ipvs cleanup" does not take any arguments, got ["foo"]'],
    [['diff', '--nope'], 2, 'unknown flag: --nope'],
    [['doctor', '--nope'], 3, 'unknown flag: --nope'],
    [['--from=x'], 1, '--from is a flag of kube-ipvs doctor, kube-ipvs explain, not of kube-ipvs'],
    [['--nope', 'diff'], 1, 'unknown flag: --nope'],
    [['diff', '--dry-run'], 2, '--dry-run is a flag of kube-ipvs cleanup, not of kube-ipvs diff'],
    [['--dry-run'], 1, '--dry-run is a flag of kube-ipvs cleanup, not of kube-ipvs'],
    [['help', 'nothing'], 1, '"kube-ipvs" does not take any arguments, got ["help" "nothing"]'],
    [['diff', '--output=yaml'], 2, 'invalid argument "yaml" for "-o, --output" flag: must be text or json'],
    [['--help', '--nope'], 1, 'unknown flag: --nope'],
  ]
  for (const [argv, exitCode, message] of rows) {
    const parsed: CommandLine | { readonly error: UsageError } = parseCommandLine(argv)
    assert.ok('error' in parsed, argv.join(' '))
    assert.deepEqual([parsed.error.exitCode, parsed.error.message], [exitCode, message], argv.join(' '))
  }
})

test('usageErrorText prints usage and suggestion before the mistake', () => {
  const textOf = (argv: readonly string[]): string => {
    const parsed = parseCommandLine(argv)
    assert.ok('error' in parsed)
    return usageErrorText(parsed.error)
  }
  const usage = 'Usage:\n  kube-ipvs [flags]\n  kube-ipvs --help lists the flags.\n'
  assert.equal(textOf(['--proxy-mod=x']), `${usage}  Did you mean --proxy-mode?\n\nError: unknown flag: --proxy-mod\n`)
  assert.equal(
    textOf(['-proxy-mode=ipvs']),
    `${usage}  Did you mean --proxy-mode?\n\nError: unknown shorthand flag: 'p' in -proxy-mode=ipvs\n`,
  )
  assert.equal(textOf(['--nothing-of-the-kind']), `${usage}\nError: unknown flag: --nothing-of-the-kind\n`)
  assert.equal(textOf(['--nope']), `${usage}\nError: unknown flag: --nope\n`)
  assert.equal(textOf(['foo']), 'Error: "kube-ipvs" does not take any arguments, got ["foo"]\n')
  assert.equal(
    textOf(['stauts', '-o', 'json']),
    'Did you mean kube-ipvs status?\n\nError: "kube-ipvs" does not take any arguments, got ["stauts"]\n',
  )
  assert.match(textOf(['clean']), /^Did you mean kube-ipvs cleanup\?\n/)
  assert.match(textOf(['version']), /^Did you mean kube-ipvs --version\?\n/)
  assert.equal(textOf(['diff', 'status']), 'Error: "kube-ipvs diff" does not take any arguments, got ["status"]\n')
})

test('parseCommandLine notes at each use of a deprecated flag what to use instead', () => {
  const parsed = parseCommandLine(['--healthz-port=1', '--healthz-port=2', '--nope'])
  assert.ok('error' in parsed)
  const notice =
    'Flag --healthz-port has been deprecated, This flag is deprecated and will be removed in a future release. Please use --healthz-bind-address instead.'
  assert.deepEqual(parsed.error.notices, [notice, notice])
})

test('parseCommandLine handles any arguments', () => {
  const word = fc.oneof(
    fc.string(),
    fc.constantFrom('--', '-', '---', '--=', '-=', '-v', '--v=', '-hv', '--no-once', ...COMMANDS),
    fc.constantFrom(...ALL.map(({ name }) => `--${name}`)),
    fc.tuple(fc.constantFrom(...ALL.map(({ name }) => name)), fc.string()).map(([name, value]) => `--${name}=${value}`),
  )
  fc.assert(
    fc.property(fc.array(word, { maxLength: 6 }), (argv) => {
      const parsed = parseCommandLine(argv)
      if ('error' in parsed) assert.match(usageErrorText(parsed.error), /(^|\n)Error: [^]+\n$/)
      else assert.ok(COMMANDS.includes(parsed.command))
    }),
  )
})

/** It prints a script, which has no other form. */
const WITHOUT_OUTPUT: readonly CommandName[] = ['completion']

test('FLAGS has each name once, and help and output for each command', () => {
  assert.equal(new Set(ALL.map(({ name }) => name)).size, ALL.length)
  const letters = ALL.flatMap(({ short }) => (short === undefined ? [] : [short]))
  assert.equal(new Set(letters).size, letters.length)
  for (const command of COMMANDS) {
    for (const name of ['help', 'output']) {
      const has = ALL.some((flag) => flag.name === name && flag.commands.includes(command))
      assert.equal(has, name === 'help' || !WITHOUT_OUTPUT.includes(command), `${command} --${name}`)
    }
  }
})

const plain: Style = (_, text) => text

test('helpText lists the flags of its command, with usage, working examples and exit codes', () => {
  for (const command of COMMANDS) {
    const text = helpText(command, { style: plain })
    for (const flag of ALL)
      if (flag.commands.includes(command)) assert.ok(text.includes(`--${flag.name}`), `${command} ${flag.name}`)
      else assert.ok(mentions(command, flag) || !text.includes(`--${flag.name} `), `${command} ${flag.name}`)
    assert.ok(COMMAND_HELP[command].examples.length >= 2)
    assert.match(
      text,
      /\nUsage:\n {2}kube-ipvs[^]*\nExamples:\n[^]*\nFlags( to begin with)?:\n( {6}--config FILE | {2}-h, --help )[^]*\nExit codes:\n {2}0 /,
    )
    for (const [columns, longest] of [
      [undefined, 100],
      [200, 100],
      [90, 90],
      [40, 80],
    ] as const)
      for (const line of helpText(command, { columns, style: plain }).split('\n'))
        assert.ok(line.length <= longest && line === line.trimEnd(), line)
    for (const [example] of COMMAND_HELP[command].examples) {
      const parsed = parseCommandLine(example.split(' ').slice(1))
      assert.ok(!('error' in parsed) && parsed.command === command, example)
    }
  }
})

test('helpText paints headings without changing the layout', () => {
  const painted = helpText('run', { style: (format, text) => `<${String(format)}>${text}</>` })
  assert.equal(painted.replace(/<\w+>|<\/>/g, ''), helpText('run', { style: plain }))
  assert.match(painted, /^<bold>Flags to begin with<\/>:$/m)
})

test('helpText of cleanup says for each mode what is removed, and what is kept', () => {
  const text = helpText('cleanup', { style: plain })
  for (const word of ['ipvs mode', 'iptables mode', 'nftables mode', 'kubelet', 'excludeCIDRs'])
    assert.ok(text.includes(word), word)
})

/** Whether the help of another flag or the description of the command mentions a flag. */
function mentions(command: CommandName, flag: Flag): boolean {
  if (COMMAND_HELP[command].description.some((text) => text.includes(`--${flag.name}`))) return true
  return ALL.some((other) => {
    const text = other.about?.[command] ?? other.help
    return other.commands.includes(command) && text.includes(`--${flag.name}`)
  })
}
