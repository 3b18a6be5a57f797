/**
 * What targets of rules do to a packet. A target that only notes something (LOG, a counter) changes
 * nothing about its path.
 */
import { parseAddress } from '../values/address.ts'
import { type RuleOption, type RuleTarget, TARGETS_WITHOUT_EFFECT } from '../iptables/rule-parts.ts'
import type { PacketState, Prediction } from './state.ts'
import type { StepEffect } from './types.ts'

/** What a target did. */
export type TargetResult =
  /** The next rule is read. `effect`: undefined when nothing changed. */
  | { readonly kind: 'continue'; readonly state: PacketState; readonly effect: StepEffect | undefined }
  /** The table is done at this hook. */
  | { readonly kind: 'done'; readonly state: PacketState; readonly effect: StepEffect }
  | { readonly kind: 'return' }
  | { readonly kind: 'end'; readonly effect: StepEffect }
  | { readonly kind: 'jump'; readonly chain: string; readonly isGoto: boolean }
  /** `because`: the target. The packet is taken to pass it unchanged. */
  | { readonly kind: 'unknown'; readonly because: string }

export function applyTarget(
  target: RuleTarget | undefined,
  state: PacketState,
  isChain: (name: string) => boolean,
  prediction: Prediction,
): TargetResult {
  if (target === undefined || TARGETS_WITHOUT_EFFECT.has(target.name))
    return { kind: 'continue', state, effect: undefined }
  if (isChain(target.name)) return { kind: 'jump', chain: target.name, isGoto: target.isGoto }
  switch (target.name) {
    case 'ACCEPT':
      return { kind: 'done', state, effect: { kind: 'accept' } }
    case 'RETURN':
      return { kind: 'return' }
    case 'DROP':
      return { kind: 'end', effect: { kind: 'drop' } }
    case 'REJECT': {
      const by = valueOf(target, '--reject-with') ?? 'icmp-port-unreachable'
      return { kind: 'end', effect: { kind: 'refuse', by } }
    }
    case 'MARK':
      return setMark(target, state)
    case 'CONNMARK':
      return setConnectionMark(target, state)
    case 'MASQUERADE':
      return { kind: 'done', ...masqueraded(state, prediction) }
    case 'SNAT':
      return { kind: 'done', ...translateSource(state, endpointOf(valueOf(target, '--to-source') ?? '', 0)?.address) }
    case 'DNAT':
      return translateDestination(target, state)
    case 'NOTRACK':
      return { kind: 'continue', state: { ...state, isTracked: false }, effect: { kind: 'untrack' } }
    case 'CT':
      return target.options.some(({ name }) => name === '--notrack')
        ? { kind: 'continue', state: { ...state, isTracked: false }, effect: { kind: 'untrack' } }
        : { kind: 'continue', state, effect: undefined }
    case 'NFT':
      return { kind: 'unknown', because: 'what it does: it was made with nft' }
    default:
      return { kind: 'unknown', because: `the target ${target.name}` }
  }
}

function valueOf({ options }: RuleTarget, name: string): string | undefined {
  return options.find((option) => option.name === name)?.values[0]
}

/** `(old & ~mask) ^ value` of `0x4000/0x4000`; undefined for other texts. */
function marked(old: number, text: string): number | undefined {
  const [value = '', mask = '0xffffffff'] = text.split('/')
  const numbers = [Number(value), Number(mask)] as const
  return numbers.some((number) => !Number.isInteger(number)) ? undefined : ((old & ~numbers[1]) ^ numbers[0]) >>> 0
}

function setMark(target: RuleTarget, state: PacketState): TargetResult {
  const mark = marked(state.mark, valueOf(target, '--set-xmark') ?? '')
  if (mark === undefined || target.options.length !== 1) return { kind: 'unknown', because: optionsText(target) }
  return { kind: 'continue', state: { ...state, mark }, effect: { kind: 'mark', mark } }
}

function setConnectionMark(target: RuleTarget, state: PacketState): TargetResult {
  const masks = { nfmask: 0xffffffff, ctmask: 0xffffffff }
  let kind: RuleOption | undefined
  for (const option of target.options) {
    const [value = ''] = option.values
    if (option.name === '--nfmask') masks.nfmask = Number(value)
    else if (option.name === '--ctmask') masks.ctmask = Number(value)
    else if (option.name === '--mask') masks.nfmask = masks.ctmask = Number(value)
    else kind = option
  }
  const { nfmask, ctmask } = masks
  switch (kind?.name) {
    case '--set-xmark': {
      const connectionMark = marked(state.connectionMark, kind.values[0] ?? '')
      if (connectionMark === undefined) break
      return { kind: 'continue', state: { ...state, connectionMark }, effect: undefined }
    }
    case '--save-mark': {
      const connectionMark = ((state.connectionMark & ~ctmask) ^ (state.mark & nfmask)) >>> 0
      return { kind: 'continue', state: { ...state, connectionMark }, effect: undefined }
    }
    case '--restore-mark': {
      const mark = ((state.mark & ~nfmask) ^ (state.connectionMark & ctmask)) >>> 0
      const effect = mark === state.mark ? undefined : ({ kind: 'mark', mark } as const)
      return { kind: 'continue', state: { ...state, mark }, effect }
    }
  }
  return { kind: 'unknown', because: optionsText(target) }
}

function optionsText({ name, options }: RuleTarget): string {
  return `the target ${[name, ...options.map((option) => option.name)].join(' ')}`
}

/** A packet whose translation is decided: no further chain of nat sees it at this hook. */
interface Translated {
  readonly state: PacketState
  readonly effect: StepEffect
}

/** The packet with the address of the interface through which it leaves. */
export function masqueraded(state: PacketState, prediction: Prediction): Translated {
  return translateSource(state, addressOfInterface(state, prediction))
}

function translateSource(state: PacketState, address: string | undefined): Translated {
  const natDone = { ...state.natDone, source: true }
  return {
    state: { ...state, source: address ?? state.source, masquerade: { address }, natDone },
    effect: { kind: 'masquerade', address },
  }
}

/**
 * The address of the interface through which it leaves: of several the one that the kernel would
 * choose; undefined when it has none.
 */
function addressOfInterface(
  { outInterface, family, destination }: PacketState,
  prediction: Prediction,
): string | undefined {
  const addresses = prediction.picture.interfaces.get(outInterface)?.addresses ?? []
  const own = addresses.filter((address) => address.includes(':') === (family === 'IPv6'))
  if (own.length < 2) return own[0]
  const route = prediction.route({ destination, source: undefined, arrivesAt: undefined, mark: 0 })
  return own.find((address) => address === route?.source)
}

function translateDestination(target: RuleTarget, state: PacketState): TargetResult {
  const to = endpointOf(valueOf(target, '--to-destination') ?? '', state.port ?? 0)
  if (to === undefined) return { kind: 'unknown', because: optionsText(target) }
  const { address, port } = to
  return {
    kind: 'done',
    state: {
      ...state,
      destination: address,
      port,
      translated: 'dnat',
      natDone: { ...state.natDone, destination: true },
    },
    effect: { kind: 'translate', address, port },
  }
}

/** `10.244.0.1:8080`, `[fd00::1]:8080`, or without a port; undefined for a range of addresses or ports. */
function endpointOf(text: string, port: number): { readonly address: string; readonly port: number } | undefined {
  const found =
    /^\[([^\]]+)\](?::(\d+))?$/.exec(text) ?? /^([\d.]+)(?::(\d+))?$/.exec(text) ?? /^([\da-f:]+)$/i.exec(text)
  const address = parseAddress(found?.[1] ?? '')
  return address === undefined ? undefined : { address, port: found?.[2] === undefined ? port : Number(found[2]) }
}
