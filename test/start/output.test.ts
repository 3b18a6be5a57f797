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

/** Runs PRINT in front of a pipe to `reader`, and prints the exit codes of both. */
const piped = (reader: string): string =>
  execFileSync(
    'bash',
    ['-c', `"$0" --input-type=module -e "$1" | ${reader}; echo "\${PIPESTATUS[0]}"`, process.execPath, PRINT],
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
})
