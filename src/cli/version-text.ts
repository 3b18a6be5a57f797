/** What `--version` prints. */
import { KUBERNETES_VERSION, VERSION } from '../daemon/version.ts'

/** One line; `raw` also says whose flags and files these are. */
export function versionText(kind: 'true' | 'raw'): string {
  return kind === 'true'
    ? `kube-ipvs v${VERSION}\n`
    : `kube-ipvs v${VERSION}, with the flags and the configuration of kube-proxy ${KUBERNETES_VERSION}\n`
}
