import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ClusterShape, familyDoubts, nodePortDoubts } from '../../src/config/doubts.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import type { KubeProxyConfiguration } from '../../src/config/types.ts'

const DUAL = { clusterCIDR: '10.244.0.0/16,fd00:10:244::/56' }
const withDefaults = defaultConfiguration()
const shape = (cluster: Partial<ClusterShape>): ClusterShape => ({
  primary: 'IPv4',
  isDualStack: true,
  podCidrs: [],
  nodeIps: { IPv4: '10.0.0.1', IPv6: 'fd00::1' },
  ...cluster,
})

test('nodePortDoubts warns in the words of kube-proxy', () => {
  const unset =
    'nodePortAddresses is unset; NodePort connections will be accepted on all local IPs. Consider using `--nodeport-addresses primary`'
  const oneFamily =
    'cluster appears to be dual-stack but nodePortAddresses contains only IPv4 addresses; NodePort connections will be accepted on all local IPv6 IPs'
  const otherFamily =
    'cluster appears to be IPv4-primary but nodePortAddresses contains only IPv6 addresses; NodePort connections will be accepted on all local IPv4 IPs'
  // kube-proxy opens every address of such a family; we open none.
  const withoutIpv6 =
    'cluster appears to be dual-stack but nodePortAddresses contains only IPv4 addresses; NodePort connections will be accepted on no local IPv6 IPs while the Node has none'
  const withoutIpv4 =
    'cluster appears to be IPv4-primary but nodePortAddresses contains only IPv6 addresses; NodePort connections will be accepted on no local IPv4 IPs while the Node has none'
  const onlyIpv4 = { nodeIps: { IPv4: '10.0.0.1' } }
  const rows: readonly (readonly [
    configuration: Partial<KubeProxyConfiguration>,
    cluster: Partial<ClusterShape>,
    text: string | undefined,
  ])[] = [
    [{}, {}, unset],
    [{ nodePortAddresses: ['primary'] }, {}, undefined],
    [{ ...DUAL, nodePortAddresses: ['primary'] }, {}, undefined],
    [{ ...DUAL, nodePortAddresses: ['primary'] }, onlyIpv4, withoutIpv6],
    [{ nodePortAddresses: ['primary'] }, onlyIpv4, undefined],
    [{ ...DUAL, nodePortAddresses: ['primary'] }, { nodeIps: { IPv4: '10.0.0.1', IPv6: '::1' } }, withoutIpv6],
    [{ ...DUAL, nodePortAddresses: ['10.0.0.0/8', 'primary'] }, onlyIpv4, withoutIpv6],
    [{ ...DUAL, nodePortAddresses: ['primary', 'fd00::/8'] }, onlyIpv4, undefined],
    [{ ...DUAL, nodePortAddresses: ['primary', 'localhost'] }, onlyIpv4, undefined],
    [{ nodePortAddresses: ['primary'] }, { nodeIps: { IPv6: 'fd00::1' } }, withoutIpv4],
    [{ ...DUAL, nodePortAddresses: ['primary'] }, { nodeIps: {} }, undefined],
    [{ ...DUAL, nodePortAddresses: ['localhost'] }, {}, undefined],
    [{ ...DUAL, nodePortAddresses: ['10.0.0.0/8', 'all'] }, {}, undefined],
    [{ ...DUAL, nodePortAddresses: ['10.0.0.0/8'] }, {}, oneFamily],
    [{ nodePortAddresses: ['10.0.0.0/8'] }, { podCidrs: ['10.244.0.0/24', 'fd00::/64'] }, oneFamily],
    [{ nodePortAddresses: ['10.0.0.0/8'] }, {}, undefined],
    [{ ...DUAL, nodePortAddresses: ['fd00::/8'] }, {}, otherFamily],
    [{ ...DUAL, nodePortAddresses: ['10.0.0.0/8', 'fd00::/8'] }, {}, undefined],
  ]
  for (const [configuration, cluster, text] of rows)
    assert.deepEqual(
      nodePortDoubts({ ...withDefaults, ...configuration }, shape(cluster)),
      text === undefined ? [] : [text],
      JSON.stringify(configuration),
    )
})

test('familyDoubts warns in the words of kube-proxy, and says which warnings end the process', () => {
  const single = { isDualStack: false }
  const clusterOnly = 'cluster is IPv4-only but clusterCIDRs contains only IPv6 addresses'
  const pod = 'cluster is IPv4-primary but node.spec.podCIDRs contains only IPv6 addresses'
  const excluded = { ipvs: { ...withDefaults.ipvs, excludeCIDRs: ['fd00::/64'] } }
  const rows: readonly (readonly [
    configuration: Partial<KubeProxyConfiguration>,
    cluster: Partial<ClusterShape>,
    texts: readonly string[],
    isFatal: boolean,
  ])[] = [
    [{}, {}, [], false],
    [{ clusterCIDR: 'fd00::/48' }, single, [clusterOnly], true],
    [{ clusterCIDR: 'fd00::/48', detectLocalMode: 'NodeCIDR' }, single, [clusterOnly], false],
    [
      { clusterCIDR: 'fd00::/48' },
      {},
      ['cluster is IPv4-primary but clusterCIDRs contains only IPv6 addresses'],
      false,
    ],
    [{}, { podCidrs: ['fd00::/64'] }, [pod], false],
    [{ detectLocalMode: 'NodeCIDR' }, { podCidrs: ['fd00::/64'] }, [pod], true],
    [excluded, {}, [], false],
    [excluded, single, ['cluster is IPv4-only but ipvs.excludeCIDRs contains only IPv6 addresses'], false],
    [{ healthzBindAddress: '[::1]:10256' }, {}, [], false],
    [{ healthzBindAddress: '[::]:10256', metricsBindAddress: '' }, single, [], false],
    [
      { healthzBindAddress: '[::1]:10256', metricsBindAddress: '[::1]:10249' },
      single,
      ['cluster is IPv4-only but healthzBindAddress is IPv6', 'cluster is IPv4-only but metricsBindAddress is IPv6'],
      false,
    ],
    [{}, { primary: 'IPv6', isDualStack: false }, ['cluster is IPv6-only but metricsBindAddress is IPv4'], false],
  ]
  for (const [configuration, cluster, texts, isFatal] of rows)
    assert.deepEqual(
      familyDoubts({ ...withDefaults, ...configuration }, shape(cluster)),
      { texts, isFatal },
      JSON.stringify(configuration),
    )
})
