/** Process entry: runs the command line and sets the exit code. */
import { main } from './cli/main.ts'

void main(process.argv.slice(2)).then((code) => process.exit(code))
