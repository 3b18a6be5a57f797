/**
 * Process entry: reads the command line, runs the daemon or a tool, and sets the exit code. Each of
 * the two is loaded only when it runs, and is a bundle of its own in the image (dev/bundle.ts).
 */
import { isDaemon, parseCommandLine } from './start/command-line.ts'
import { onOutputGone, outputWritten } from './start/output.ts'

const line = parseCommandLine(process.argv.slice(2))
// A reader such as `head` may leave before everything is printed.
if (!isDaemon(line)) onOutputGone(() => undefined)
const code = isDaemon(line)
  ? import('./start/main.ts').then(({ main }) => main(line))
  : import('./cli/main.ts').then(({ main }) => main(line))

void code.then(async (exitCode) => {
  await outputWritten()
  process.exit(exitCode)
})
