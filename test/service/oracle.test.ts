/**
 * Runs the recorded objects through parsers, selection and frontends. The virtual servers and bound
 * addresses must be those that kube-proxy left in the kernel, except in the steps listed here, each
 * with its reason. A step that is neither equal nor listed fails the test, and so does a listed
 * step that is equal.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AddressFrontend } from '../../src/service/frontends.ts'
import { formatEndpoint } from '../../src/values/address.ts'
import { type RecordedStep, recordedCases, walkCase } from '../support/recorded-cases.ts'

/** Steps (`case/step`) whose recorded table is not what we want from the same objects, and why. */
const DIFFERENT: Readonly<Record<string, string>> = {
  'adopt-leftovers/2': 'the proxy is stopped',
  'cleanup/2': 'a foreign virtual server is there while the proxy is stopped',
  'cleanup/3': 'cleaned up',
  'cleanup/4': 'cleaned up',
  'cleanup-referenced-chain/3': 'cleaned up',
  'drift-address-added/2': 'foreign loopback and link-local addresses stay on the device',
  'drift-foreign-virtual-server/2': 'fwmark virtual servers stay',
  'drift-ipset-wrong-parameters/1': 'deviation 36: kube-proxy stops at a set with other parameters',
  'drift-weight/2': 'deviation 16: kube-proxy leaves weights changed by hand',
  'dup-external-ip-different/1': 'deviation 22: the older Service wins',
  'dup-external-ip-different/2': 'deviation 22: the older Service wins',
  'dup-external-ip-different/3': 'deviation 22: the older Service wins',
  'dup-external-ip-different/4': 'deviation 22: the older Service wins',
  'dup-external-ip-different/5': 'deviation 22: the older Service wins',
  'exclude-cidrs/1': 'foreign virtual servers inside excludeCIDRs stay',
  'exclude-cidrs-own-service/2': 'deviation 39: excludeCIDRs keep an own virtual server too',
  'gate-ipvs-off/1': 'the feature gate refuses ipvs mode',
  'lb-vip-loopback/2': 'deviation 23: a loopback VIP goes with its Service',
  'policy-both-local-nodeport/1': 'deviation 5: internal policy Local is kept',
  'policy-internal-local-nodeport/1': 'deviation 5: internal policy Local is kept',
  'sched-bogus/1': 'deviation 37: kube-proxy ends at an unknown scheduler',
}

const OPTION = { tcp: '-t', udp: '-u', sctp: '--sctp-service' } as const

/** As `ipvsadm -S -n` prints it, without the scheduler and its flags. */
function serverLines(frontend: AddressFrontend): readonly string[] {
  const { address, port, selection, servicePort } = frontend
  const { protocol, service } = servicePort
  const server = `${OPTION[protocol]} ${formatEndpoint(address, port)}`
  const persistence = service.affinityTimeoutSeconds > 0 ? ` -p ${service.affinityTimeoutSeconds}` : ''
  const real = selection.endpoints.map((one) => `-a ${server} -r ${formatEndpoint(one.address, one.port)} -m -w 1`)
  return [`-A ${server}${persistence}`, ...real]
}

interface Kernel {
  readonly servers: readonly string[]
  readonly bound: readonly string[]
}

function wanted(frontends: readonly AddressFrontend[]): Kernel {
  const bound = new Set(frontends.filter(({ bind }) => bind).map(({ address }) => address))
  return { servers: frontends.flatMap(serverLines).sort(), bound: [...bound].sort() }
}

function kernelAfter({ lines }: RecordedStep): Kernel {
  return {
    servers: lines('ipvs.txt')
      .map((line) => line.replace(/ -s \S+/, '').replace(/ -b \S+/, ''))
      .sort(),
    bound: lines('addresses.txt')
      .filter((line) => !line.startsWith('#'))
      .map((line) => line.split('/')[0] ?? '')
      .sort(),
  }
}

function check(step: RecordedStep): void {
  const [ours, theirs] = [wanted([...step.frontends.values()]), kernelAfter(step)]
  const reason = DIFFERENT[step.name]
  if (reason === undefined) assert.deepEqual(ours, theirs, step.name)
  else assert.notDeepEqual(ours, theirs, `${step.name} is equal, but listed: ${reason}`)
}

for (const name of recordedCases()) test(`DesiredFrontends oracle case ${name}`, () => walkCase(name, check))
