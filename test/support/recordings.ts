/** Where the recordings of kube-proxy and of an API server are. `test/recordings/README.md` describes them. */
import { fileURLToPath } from 'node:url'

/** Absolute path of a file or folder of the recordings, such as `cases` or `surfaces/events.json`. */
export function recordingPath(path: string): string {
  return fileURLToPath(new URL(`../recordings/${path}`, import.meta.url))
}
