/** The runner of recorded surfaces: what it compares, what it leaves out, and its list of deviations. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judge } from '../support/deviations.ts'
import { mismatches, type Recorded } from './compare.ts'
import { joined, readSurfaceDeviations } from './surface-case.ts'

const RECORDED: Recorded = { exit: 0, stdout: '', stderr: '', written: null }
const OURS = { exit: 0, stdout: '', stderr: '', written: undefined }

/** What differs between two texts of standard error. */
const compare = (recorded: string, ours: string): readonly string[] =>
  mismatches({ ...RECORDED, stderr: recorded }, { ...OURS, stderr: ours })

test('mismatches ignores klog headers but for the severity, the program name, the usage and our own flags', () => {
  const time = '1122 04:12:07.198000   11761'
  const rows: readonly (readonly [recorded: string, ours: string])[] = [
    ['I<time> <pid> options.go:436] "Wrote" file="o"\n', `I${time} write.ts:14] "Wrote" file="o"\n`],
    [
      '{"ts":<ts>,"caller":"app/options.go:436","msg":"Wrote","v":0}\n',
      '{"ts":1795317466729.7434,"caller":"cli/write.ts:14","msg":"Wrote","v":0}\n',
    ],
    ['<usage>\n\nError: unknown flag: --x\n', 'Usage:\n  kube-ipvs [flags]\n  more\n\nError: unknown flag: --x\n'],
    ['Error: "kube-proxy" does not\n', 'Error: "kube-ipvs" does not\n'],
    [
      'I<time> <pid> flags.go:64] FLAG: --master=""\n',
      `I${time} start.ts:3] FLAG: --manifests=""\nI${time} start.ts:3] FLAG: --master=""\n`,
    ],
  ]
  for (const [recorded, ours] of rows) assert.deepEqual(compare(recorded, ours), [], ours)
})

test('mismatches finds every other difference', () => {
  const time = '1122 04:12:07.198000   11761'
  const differing: readonly (readonly [recorded: string, ours: string])[] = [
    ['I<time> <pid> a.go:1] "x"\n', `E${time} a.ts:1] "x"\n`],
    ['I<time> <pid> a.go:1] "x"\n', `I${time} a.ts:1] "x" y=1\n`],
    ['I<time> <pid> a.go:1] "x"\n', ''],
    ['', `I${time} a.ts:1] "x"\n`],
    ['{"ts":<ts>,"caller":"a.go:1","msg":"x","v":0}\n', '{"ts":1,"caller":"a.ts:1","msg":"x"}\n'],
    ['I<time> <pid> flags.go:64] FLAG: --master=""\n', ''],
    ['x\n', 'x'],
  ]
  for (const [recorded, ours] of differing) assert.equal(compare(recorded, ours).length, 1, ours)
  assert.deepEqual(mismatches({ ...RECORDED, exit: 1 }, OURS), ['exit code 0, not 1'])
  assert.equal(mismatches({ ...RECORDED, written: 'a: 1\n' }, OURS).length, 1)
  assert.equal(mismatches(RECORDED, { ...OURS, written: 'a: 1\n' }).length, 1)
  assert.equal(mismatches({ ...RECORDED, stdout: 'a\n' }, { ...OURS, stdout: 'b\n' }).length, 1)
})

test('mismatches compares errors of decoding by the field that they name', () => {
  const go = (field: string): string =>
    `E<time> <pid> run.go:72] "command failed" err="failed complete: failed to decode: json: cannot unmarshal string into Go struct field KubeProxyIPVSConfiguration.${field} of type bool"\n`
  const our = (text: string): string =>
    `E1122 04:12:07.198000   11761 run.ts:1] "command failed" err="failed complete: ${text}"\n`
  const alike = 'failed to decode: line 3: ipvs.strictARP: expected boolean, received string'
  assert.deepEqual(compare(go('ipvs.strictARP'), our(alike)), [])
  assert.deepEqual(compare(go('logging.vmodule'), our('failed to decode: logging.vmodule[0]: expected object')), [])
  assert.deepEqual(compare(go('featureGates'), our('failed to decode: featureGates.X: expected boolean')), [])
  const missing =
    'E<time> <pid> run.go:72] "command failed" err=<\n\tfailed complete: failed to decode: Object\n\t\'\n >\n'
  assert.deepEqual(compare(missing, our('failed to decode: kind is missing')), [])
  assert.equal(compare(go('ipvs.strictArp'), our(alike)).length, 1)
  assert.equal(compare(go('ipvs.strictARP'), our('failed to decode: wrong')).length, 1)
  assert.equal(compare(go('ipvs.strictARP'), our(`failed validate: ${alike.slice(18)}`)).length, 1)
})

test('joined makes one text of all mismatches, in the form of deviations.yaml', () => {
  const deviation = { case: 'c', reason: 'r', instead: 'exit code 0, not 1\nstderr:\n@ 1\n+x\n' }
  const found = ['exit code 0, not 1', 'stderr:\n@ 1\n+x\n']
  assert.equal(judge(joined(found), deviation).kind, 'deviates')
  assert.equal(judge(joined([]), undefined).kind, 'equal')
  assert.deepEqual(judge(joined(found), undefined), { kind: 'differs', text: deviation.instead })
  assert.equal(judge(joined([]), deviation).kind, 'differs')
  assert.equal(judge(joined([...found, 'more']), deviation).kind, 'differs')
})

test('deviations.yaml names each case once, with a reason', () => {
  const cases = readSurfaceDeviations().map((deviation) => deviation.case)
  assert.ok(cases.length > 0)
  assert.equal(new Set(cases).size, cases.length)
})
