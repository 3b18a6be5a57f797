/** What `--version` prints. */
import { VERSION } from '../daemon/version.ts'
import { KUBE_PROXY_RELEASE } from '../values/well-known.ts'

/** One line; `raw` also says whose flags and files these are. */
export function versionText(kind: 'true' | 'raw'): string {
  return kind === 'true'
    ? `kube-ipvs v${VERSION}\n`
    : `kube-ipvs v${VERSION}, with the flags and the configuration of kube-proxy ${KUBE_PROXY_RELEASE.version}\n`
}
