/**
 * The shape of a v1alpha1 KubeProxyConfiguration document: types and what an absent field or `null` means.
 * What could break: Go reads null as "not given" for everything but plain durations; rules between fields are in validate.ts.
 */
import * as z from 'zod'
import { parseDuration } from './duration.ts'
import type { UncheckedConfiguration } from './types.ts'

// Without this zod compiles parsers with `new Function`, which costs more than one parse gains.
z.config({ jitless: true })

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '')

const flag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? false)

/** A list of texts; Go reads a null in it as ''. */
const texts = z
  .array(z.string().nullable())
  .nullish()
  .transform((list) => (list ?? []).map((item) => item ?? ''))

/** An int32 that knows "not given" from 0 (a pointer in Go). */
const int32Or = (fallback: number) =>
  z
    .int32()
    .nullish()
    .transform((value) => value ?? fallback)

/** A number for which 0 means "not given" (a plain value in Go with a default). */
const nonZeroOr = (kind: z.ZodNumber, fallback: number) => kind.nullish().transform((value) => value || fallback)

const durationText = z.string().transform((value, context) => {
  const parsed = parseDuration(value)
  if ('milliseconds' in parsed) return parsed.milliseconds
  context.addIssue({ code: 'custom', message: parsed.error, input: value })
  return z.NEVER
})

/** A duration in milliseconds that is 0 when absent. Go refuses null here: it reads it as ''. */
const duration = z
  .preprocess((value) => (value === null ? '' : value), durationText.optional())
  .transform((ms) => ms ?? 0)

/** A duration that knows "not given" from 0. */
const durationOr = (fallbackMs: number) => durationText.nullish().transform((ms) => ms ?? fallbackMs)

/** Nanoseconds as a number, or a duration as text (component-base TimeOrMetaDuration). */
const flushFrequency = z
  .union([z.number().transform((nanoseconds) => nanoseconds / 1e6), durationText])
  .nullish()
  .transform((ms) => ms ?? 0)

/** A part of the document: absent and null both mean that all its fields are absent. */
const block = <Shape extends z.ZodRawShape>(shape: Shape) => z.preprocess((value) => value ?? {}, z.strictObject(shape))

const streamOptions = block({
  splitStream: flag,
  infoBufferSize: z
    .union([z.string(), z.int()])
    .nullish()
    .transform((size) => String(size ?? '0')),
})

const clientConnection = block({
  kubeconfig: text,
  acceptContentTypes: text,
  contentType: text.transform((value) => value || 'application/vnd.kubernetes.protobuf'),
  qps: nonZeroOr(z.number(), 5),
  burst: nonZeroOr(z.int32(), 10),
})

const logging = block({
  format: text.transform((value) => value || 'text'),
  flushFrequency: flushFrequency.transform((ms) => ms || 5_000),
  verbosity: z
    .uint32()
    .nullish()
    .transform((value) => value ?? 0),
  vmodule: z
    .array(
      z.strictObject({
        filePattern: text,
        verbosity: z
          .uint32()
          .nullish()
          .transform((value) => value ?? 0),
      }),
    )
    .nullish()
    .transform((list) => list ?? []),
  options: block({ text: streamOptions, json: streamOptions }),
}).transform(({ flushFrequency, ...rest }) => ({ ...rest, flushFrequencyMs: flushFrequency }))

const periods = { syncPeriod: duration, minSyncPeriod: duration }

const iptables = block({
  masqueradeBit: int32Or(14),
  masqueradeAll: flag,
  localhostNodePorts: z
    .boolean()
    .nullish()
    .transform((value) => value ?? true),
  ...periods,
}).transform(({ syncPeriod, minSyncPeriod, ...rest }) => ({
  ...rest,
  syncPeriodMs: syncPeriod,
  minSyncPeriodMs: minSyncPeriod,
}))

const ipvs = block({
  ...periods,
  scheduler: text,
  excludeCIDRs: texts,
  strictARP: flag,
  tcpTimeout: duration,
  tcpFinTimeout: duration,
  udpTimeout: duration,
}).transform(({ syncPeriod, minSyncPeriod, tcpTimeout, tcpFinTimeout, udpTimeout, ...rest }) => ({
  ...rest,
  syncPeriodMs: syncPeriod,
  minSyncPeriodMs: minSyncPeriod,
  tcpTimeoutMs: tcpTimeout,
  tcpFinTimeoutMs: tcpFinTimeout,
  udpTimeoutMs: udpTimeout,
}))

const nftables = block({ masqueradeBit: int32Or(14), masqueradeAll: flag, ...periods }).transform(
  ({ syncPeriod, minSyncPeriod, ...rest }) => ({ ...rest, syncPeriodMs: syncPeriod, minSyncPeriodMs: minSyncPeriod }),
)

const HOUR_MS = 3_600_000

const conntrack = block({
  maxPerCore: int32Or(32_768),
  min: int32Or(131_072),
  tcpEstablishedTimeout: durationOr(24 * HOUR_MS),
  tcpCloseWaitTimeout: durationOr(HOUR_MS),
  tcpBeLiberal: flag,
  udpTimeout: duration,
  udpStreamTimeout: duration,
}).transform(({ tcpEstablishedTimeout, tcpCloseWaitTimeout, udpTimeout, udpStreamTimeout, ...rest }) => ({
  ...rest,
  tcpEstablishedTimeoutMs: tcpEstablishedTimeout,
  tcpCloseWaitTimeoutMs: tcpCloseWaitTimeout,
  udpTimeoutMs: udpTimeout,
  udpStreamTimeoutMs: udpStreamTimeout,
}))

const winkernel = block({
  networkName: text,
  sourceVip: text,
  enableDSR: flag,
  rootHnsEndpointName: text,
  forwardHealthCheckVip: flag,
})

/** The whole document. Defaults that depend on other fields come in complete.ts. */
export const documentSchema = z
  .strictObject({
    apiVersion: z.string(),
    kind: z.string(),
    featureGates: z
      .record(z.string(), z.boolean())
      .nullish()
      .transform((gates) => gates ?? {}),
    clientConnection,
    logging,
    hostnameOverride: text,
    bindAddress: text,
    healthzBindAddress: text,
    metricsBindAddress: text,
    bindAddressHardFail: flag,
    enableProfiling: flag,
    showHiddenMetricsForVersion: text,
    mode: text,
    iptables,
    ipvs,
    nftables,
    winkernel,
    detectLocalMode: text,
    detectLocal: block({ bridgeInterface: text, interfaceNamePrefix: text }),
    clusterCIDR: text,
    nodePortAddresses: texts,
    oomScoreAdj: int32Or(-999),
    conntrack,
    configSyncPeriod: duration.transform((ms) => ms || 15 * 60_000),
    portRange: text,
    windowsRunAsService: flag,
  })
  .transform(
    ({ apiVersion: _apiVersion, kind: _kind, configSyncPeriod, ...rest }): UncheckedConfiguration => ({
      ...rest,
      configSyncPeriodMs: configSyncPeriod,
    }),
  )
