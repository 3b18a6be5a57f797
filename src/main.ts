/** Process entry: runs the command line and sets the exit code. */
import { main } from './cli/main.ts'
import { outputWritten } from './cli/output.ts'

void main(process.argv.slice(2)).then(async (code) => {
  await outputWritten()
  process.exit(code)
})
