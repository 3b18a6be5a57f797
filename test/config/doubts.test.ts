import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ClusterShape, doubtsAbout } from '../../src/config/doubts.ts'
import { defaultConfiguration } from '../../src/config/load.ts'
import type { KubeProxyConfiguration } from '../../src/config/types.ts'

const UNSET =
  'nodePortAddresses is unset; NodePort connections will be accepted on all local IPs. Consider using `--nodeport-addresses primary`'
const ONE_FAMILY =
  'cluster appears to be dual-stack but nodePortAddresses contains only IPv4 addresses; NodePort connections will be accepted on all local IPv6 IPs'
const OTHER_FAMILY =
  'cluster appears to be IPv4-primary but nodePortAddresses contains only IPv6 addresses; NodePort connections will be accepted on all local IPv4 IPs'
const CLUSTER = 'cluster is IPv4-only but clusterCIDRs contains only IPv6 addresses'
const POD = 'cluster is IPv4-primary but node.spec.podCIDRs contains only IPv6 addresses'
const EXCLUDED = 'cluster is IPv4-primary but ipvs.excludeCIDRs contains only IPv6 addresses'
const DUAL = { clusterCIDR: '10.244.0.0/16,fd00:10:244::/56' }
const quiet = { nodePortAddresses: ['primary'] }
const withDefaults = defaultConfiguration()

test('doubtsAbout has the words of kube-proxy', () => {
  const rows: readonly (readonly [
    configuration: Partial<KubeProxyConfiguration>,
    cluster: Partial<ClusterShape>,
    texts: readonly string[],
    fatal: readonly string[],
  ])[] = [
    [{}, {}, [UNSET], []],
    [quiet, {}, [], []],
    [{ ...DUAL, nodePortAddresses: ['10.0.0.0/8'] }, {}, [ONE_FAMILY], []],
    [{ nodePortAddresses: ['10.0.0.0/8'] }, {}, [], []],
    [{ ...DUAL, nodePortAddresses: ['fd00::/8'] }, {}, [OTHER_FAMILY], []],
    [{ ...DUAL, nodePortAddresses: ['10.0.0.0/8', 'fd00::/8'] }, {}, [], []],
    [{ ...quiet, clusterCIDR: 'fd00::/48' }, { isDualStack: false }, [CLUSTER], [CLUSTER]],
    [{ ...quiet, clusterCIDR: 'fd00::/48', detectLocalMode: 'NodeCIDR' }, { isDualStack: false }, [CLUSTER], []],
    [quiet, { podCidrs: ['fd00::/64'] }, [POD], []],
    [{ ...quiet, detectLocalMode: 'NodeCIDR' }, { podCidrs: ['fd00::/64'] }, [POD], [POD]],
    [{ ...quiet, ipvs: { ...withDefaults.ipvs, excludeCIDRs: ['fd00::/64'] } }, {}, [EXCLUDED], []],
  ]
  for (const [configuration, cluster, texts, fatal] of rows)
    assert.deepEqual(
      doubtsAbout(
        { ...withDefaults, ...configuration },
        { primary: 'IPv4', isDualStack: true, podCidrs: [], ...cluster },
      ),
      { texts, fatal },
    )
})
