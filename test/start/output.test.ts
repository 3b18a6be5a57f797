/** What is printed into a pipe whose reader is slow, or gone. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, it } from 'node:test'

const OUTPUT = new URL('../../src/start/output.ts', import.meta.url).href
/** Prints more than a pipe takes, and exits as src/main.ts does. */
const PRINT = `import { outputWritten, printText } from '${OUTPUT}'
printText('x'.repeat(999_999))
await outputWritten()
process.exit(3)`

/** Goes on after it has printed, as `kube-ipvs diff` does. */
const PRINT_FIRST = (isProtected: boolean): string => `import { onOutputGone, printText } from '${OUTPUT}'
if (${isProtected}) onOutputGone(() => undefined)
printText('x'.repeat(999_999))
setTimeout(() => process.exit(3), 500)`

/** Runs a program in front of a pipe to `reader`, and prints what that prints and the exit code of the program. */
const piped = (reader: string, program = PRINT): string =>
  execFileSync(
    'bash',
    ['-c', `"$0" --input-type=module -e "$1" | ${reader}; echo "\${PIPESTATUS[0]}"`, process.execPath, program],
    {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  )

describe('the output of a command', () => {
  it('is complete when its reader is slow', () => {
    assert.equal(piped('{ sleep 0.2; wc -c; }'), '1000000\n3\n')
  })

  it('does not keep the command when its reader is gone', () => {
    assert.equal(piped('true'), '3\n')
  })

  it('ends no command that goes on when its reader is gone, as src/main.ts asks for', () => {
    assert.equal(piped('true', PRINT_FIRST(true)), '3\n')
    assert.equal(piped('true', PRINT_FIRST(false)), '1\n')
  })
})
