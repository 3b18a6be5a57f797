/** Configurations for tests. */
import assert from 'node:assert/strict'
import { loadConfiguration } from '../../src/config/load.ts'
import type { KubeProxyConfiguration } from '../../src/config/types.ts'

/** Every default, in the given mode. */
export function defaultConfiguration(mode: KubeProxyConfiguration['mode'] = 'ipvs'): KubeProxyConfiguration {
  const text = JSON.stringify({ apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration', mode })
  const loaded = loadConfiguration(text, 'defaults')
  assert.ok('configuration' in loaded, JSON.stringify(loaded))
  return loaded.configuration
}
