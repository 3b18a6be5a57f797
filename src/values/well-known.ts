/** Names and numbers of Kubernetes, of kube-proxy and of this program that several folders need. */
import manifest from '../../package.json' with { type: 'json' }
import type { IpFamily } from './protocol.ts'

/** The dummy device that carries the addresses of Services in ipvs mode (kube-proxy's defaultDummyDevice). */
export const SERVICE_DEVICE = 'kube-ipvs0'

/** The unspecified address of each family, which means every address. */
export const ANY_ADDRESS: Readonly<Record<IpFamily, string>> = { IPv4: '0.0.0.0', IPv6: '::' }

/** The loopback address of each family. */
export const LOOPBACK_ADDRESS: Readonly<Record<IpFamily, string>> = { IPv4: '127.0.0.1', IPv6: '::1' }

/** The version of this program: that of package.json, which the bundle carries with it. */
export const VERSION: string = manifest.version

/** The release of kube-proxy whose flags, configuration, messages and metrics this program has. */
export const KUBE_PROXY_RELEASE = {
  version: 'v1.37.2',
  major: '1',
  minor: '37',
  /** `show-hidden-metrics-for-version` accepts only this one. */
  previousMinorVersion: '1.36',
} as const

/** The annotations of a Service that are read; all others are dropped where the object is parsed. */
export const SERVICE_ANNOTATION = {
  scheduler: 'kube-ipvs.io/scheduler',
  schedulerFlags: 'kube-ipvs.io/scheduler-flags',
  affinityPrefixLength: 'kube-ipvs.io/affinity-prefix-length',
  drainDeadline: 'kube-ipvs.io/drain-deadline',
  maxConnections: 'kube-ipvs.io/max-connections',
  weights: 'kube-ipvs.io/weights',
  slowStart: 'kube-ipvs.io/slow-start',
  outlierDetection: 'kube-ipvs.io/outlier-detection',
  /** kube-router's count where ours are absent. */
  kubeRouterScheduler: 'kube-router.io/service.scheduler',
  kubeRouterFlags: 'kube-router.io/service.schedflags',
} as const
