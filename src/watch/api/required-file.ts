/**
 * A file without which there is no start.
 * What could break: the words are Go's, because operators know them from kube-proxy.
 */
import { access, constants } from 'node:fs/promises'
import { CodedError } from '../../values/errors.ts'

/** Rejects as Go's os package says it when the file cannot be read: `stat /x: no such file or directory`. */
export async function requireFile(path: string, verb: 'stat' | 'open', shown = path): Promise<void> {
  try {
    await access(path, constants.R_OK)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : ''
    const reason =
      code === 'ENOENT' ? 'no such file or directory' : code === 'EACCES' ? 'permission denied' : String(code)
    throw new CodedError('kubeconfig', `${verb} ${shown}: ${reason}`, { cause: error })
  }
}
