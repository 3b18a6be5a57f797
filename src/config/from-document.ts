/**
 * The parsed document as the program holds it: durations end in `Ms`, and what Go loses on the way is lost here too.
 * What could break: `write.ts` relies on the suffix, and kube-proxy's own conversion on which block belongs to which mode.
 */
import type { ParsedDocument } from './schema.ts'
import type { UncheckedConfiguration } from './types.ts'

/** Renames; nothing is filled in or checked. */
export function fromDocument(document: ParsedDocument): UncheckedConfiguration {
  const { apiVersion: _apiVersion, kind: _kind, configSyncPeriod, kubeIPVS, ...rest } = document
  const { iptables, ipvs, nftables, conntrack, logging } = rest
  const { flushFrequency, options, ...otherLogging } = logging
  const { drainDeadline, ...otherOwn } = kubeIPVS
  return {
    ...rest,
    configSyncPeriodMs: configSyncPeriod,
    logging: {
      ...otherLogging,
      // kube-proxy loses it on the way; only the flags of that name count.
      options: { text: { ...options.text, splitStream: false }, json: { ...options.json, splitStream: false } },
      flushFrequencyMs: flushFrequency.milliseconds,
      flushFrequencyAsNumber: flushFrequency.asNumber,
    },
    iptables: inMs(iptables),
    ipvs: ipvsInMs(ipvs),
    nftables: inMs(nftables),
    conntrack: conntrackInMs(conntrack),
    kubeIPVS: { ...otherOwn, drainDeadlineMs: drainDeadline },
  }
}

interface Periods {
  readonly syncPeriod: number
  readonly minSyncPeriod: number
}

function inMs<Block extends Periods>({ syncPeriod, minSyncPeriod, ...rest }: Block) {
  return { ...rest, syncPeriodMs: syncPeriod, minSyncPeriodMs: minSyncPeriod }
}

function ipvsInMs({ tcpTimeout, tcpFinTimeout, udpTimeout, ...rest }: ParsedDocument['ipvs']) {
  return { ...inMs(rest), tcpTimeoutMs: tcpTimeout, tcpFinTimeoutMs: tcpFinTimeout, udpTimeoutMs: udpTimeout }
}

function conntrackInMs({
  tcpEstablishedTimeout,
  tcpCloseWaitTimeout,
  udpTimeout,
  udpStreamTimeout,
  ...rest
}: ParsedDocument['conntrack']) {
  return {
    ...rest,
    tcpEstablishedTimeoutMs: tcpEstablishedTimeout,
    tcpCloseWaitTimeoutMs: tcpCloseWaitTimeout,
    udpTimeoutMs: udpTimeout,
    udpStreamTimeoutMs: udpStreamTimeout,
  }
}
