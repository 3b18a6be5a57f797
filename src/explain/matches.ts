/**
 * Whether a packet has what one match of a rule asks for, as the kernel's modules compare it. What
 * is not understood here is said to be unknown and never guessed. A packet is the first of its
 * client, so `recent` finds no earlier one, and within every limit of rates.
 */
import type { RuleMatch, RuleOption } from '../iptables/rule-parts.ts'
import { isFlagged, isIcmpType, isPort, isPortOf } from './match-ports.ts'
import { FALSE, type Judgement, TRUE, unknown } from './judgement.ts'
import type { PacketState, Prediction } from './state.ts'
import { contains, parseCidr } from '../values/cidr.ts'
import { PROTOCOL_NUMBER } from '../values/protocol.ts'

/** Judges one match of a rule. */
type Judge = (match: RuleMatch, state: PacketState, prediction: Prediction) => Judgement

/** Judges each option by itself; all must match. */
function each(judge: (option: RuleOption, state: PacketState, prediction: Prediction) => Judgement): Judge {
  return ({ name, options }, state, prediction) => {
    let all: Judgement = TRUE
    for (const option of options) {
      const judgement = judge(option, state, prediction)
      if (judgement.kind === 'no') return judgement
      if (judgement.kind !== 'yes' && all.kind !== 'unknown')
        all =
          judgement.kind === 'unknown' && judgement.because === ''
            ? unknown(`${name} ${option.name}`.trim())
            : judgement
      else if (judgement.kind === 'yes' && judgement.sets !== undefined && all.kind === 'yes')
        all = { kind: 'yes', sets: [...(all.sets ?? []), ...judgement.sets] }
    }
    return all
  }
}

/** An option that is not understood. */
const NOT_UNDERSTOOD = unknown('')

const is = (matches: boolean, { negated }: RuleOption): Judgement => (matches === negated ? FALSE : TRUE)

const head = each((option, state) => {
  const [value = ''] = option.values
  switch (option.name) {
    case '-s':
      return isIn(state.source, value, option)
    case '-d':
      return isIn(state.destination, value, option)
    case '-i':
      return is(isInterface(state.inInterface, value), option)
    case '-o':
      return is(isInterface(state.outInterface, value), option)
    case '-p':
      return is(isProtocol(state, value), option)
    case '-f':
      return is(false, option)
    default:
      return NOT_UNDERSTOOD
  }
})

function isIn(address: string, value: string, option: RuleOption): Judgement {
  const range = parseCidr(value.includes('/') ? value : `${value}/${value.includes(':') ? 128 : 32}`)
  return range === undefined ? NOT_UNDERSTOOD : is(contains(range, address), option)
}

/** A name with `+` at its end is a prefix. Where a packet has no interface, its name is empty. */
function isInterface(name: string, wanted: string): boolean {
  return wanted.endsWith('+') ? name.startsWith(wanted.slice(0, -1)) : name === wanted
}

const ICMP_NAMES = { IPv4: ['icmp', '1'], IPv6: ['ipv6-icmp', 'icmpv6', '58'] } as const

function isProtocol({ protocol, family }: PacketState, wanted: string): boolean {
  if (wanted === 'all' || wanted === '0') return true
  if (protocol === 'icmp') return ICMP_NAMES[family].some((name) => name === wanted)
  return wanted === protocol || wanted === String(PROTOCOL_NUMBER[protocol])
}

const ports = (protocol: PacketState['protocol']): Judge => {
  const judge = each((option, state) => {
    const [value = '', second = ''] = option.values
    switch (option.name) {
      case '--dport':
      case '--destination-port':
        return isPort(state.port, value, option)
      case '--sport':
      case '--source-port':
        return isPort(state.sourcePort, value, option)
      case '--tcp-flags':
        return is(isFlagged(state.connection, value, second), option)
      default:
        return NOT_UNDERSTOOD
    }
  })
  return (match, state, prediction) => (state.protocol === protocol ? judge(match, state, prediction) : FALSE)
}

const icmp: Judge = (match, state, prediction) =>
  state.protocol === 'icmp'
    ? each((option) =>
        /^--icmp(v6)?-type$/.test(option.name) ? isIcmpType(option.values[0] ?? '', option, state) : NOT_UNDERSTOOD,
      )(match, state, prediction)
    : FALSE

const multiport = each((option, state) => {
  const [value = ''] = option.values
  if (state.protocol === 'icmp') return FALSE
  switch (option.name) {
    case '--dports':
      return isPortOf([state.port], value, option)
    case '--sports':
      return isPortOf([state.sourcePort], value, option)
    case '--ports':
      return isPortOf([state.sourcePort, state.port], value, option)
    default:
      return NOT_UNDERSTOOD
  }
})

const set = each((option, state, prediction) => {
  const [name = '', directions = ''] = option.values
  if (option.name !== '--match-set')
    return option.name === '--return-nomatch' ? NOT_UNDERSTOOD : unknown(`set ${option.name}`)
  const known = prediction.picture.sets.get(name)
  if (known === undefined) return unknown(`the set ${name}, which kube-ipvs does not read`)
  const entry = known.find(directions, state)
  return (entry === undefined) === option.negated ? { kind: 'yes', sets: [{ name, entry }] } : FALSE
})

const markOf = (read: (state: PacketState) => number): Judge =>
  each((option, state) => {
    const [value = '', mask = '0xffffffff'] = (option.values[0] ?? '').split('/')
    const numbers = [Number(value), Number(mask)] as const
    if (option.name !== '--mark' || value === '' || numbers.some((number) => !Number.isInteger(number)))
      return NOT_UNDERSTOOD
    return is((read(state) & numbers[1]) >>> 0 === numbers[0], option)
  })

const connection = each((option, state) => {
  const words = (option.values[0] ?? '').split(',')
  switch (option.name) {
    case '--ctstate':
    case '--state':
      return is(
        statesOf(state).some((word) => words.includes(word)),
        option,
      )
    case '--ctdir':
      return state.isTracked ? is((words[0] === 'ORIGINAL') === (state.connection === 'NEW'), option) : FALSE
    default:
      return NOT_UNDERSTOOD
  }
})

function statesOf({ isTracked, connection: known, translated, masquerade }: PacketState): readonly string[] {
  if (!isTracked) return ['UNTRACKED']
  // IPVS changes the connection without the flags of nat.
  return [known, ...(translated === 'dnat' ? ['DNAT'] : []), ...(masquerade === undefined ? [] : ['SNAT'])]
}

const addrtype = each((option, state, prediction) => {
  if (option.name !== '--src-type' && option.name !== '--dst-type') return NOT_UNDERSTOOD
  const isLocal = prediction.isLocal(option.name === '--src-type' ? state.source : state.destination)
  const types = (option.values[0] ?? '').split(',')
  if (types.some((type) => type !== 'LOCAL' && type !== 'UNICAST' && type !== 'BROADCAST' && type !== 'MULTICAST'))
    return NOT_UNDERSTOOD
  return is(types.includes(isLocal === true ? 'LOCAL' : 'UNICAST'), option)
})

/** xt_ipvs.c: all but `--ipvs` match only what IPVS has sent. */
const ipvs = each((option, state) => {
  const [value = ''] = option.values
  const server = state.virtualServer
  if (option.name === '--ipvs') return is(server !== undefined, option)
  if (server === undefined) return FALSE
  switch (option.name) {
    case '--vproto':
      return is(isProtocol(state, value), option)
    case '--vaddr':
      return isIn(server.address, value, option)
    case '--vport':
      return is(server.port === Number(value), option)
    case '--vdir':
      return is((value === 'ORIGINAL') === (state.connection === 'NEW'), option)
    case '--vmethod':
      return is(value === 'MASQ', option)
    default:
      return NOT_UNDERSTOOD
  }
})

const statistic: Judge = ({ options }) => {
  const valueOf = (name: string): RuleOption | undefined => options.find((option) => option.name === name)
  const probability = valueOf('--probability')
  const every = valueOf('--every')
  const option = probability ?? every
  if (option === undefined) return unknown('statistic without a probability')
  const given = probability === undefined ? 1 / Number(every?.values[0]) : Number(probability.values[0])
  if (!(given >= 0 && given <= 1)) return unknown('the probability of statistic')
  const chance = option.negated ? 1 - given : given
  return chance === 0 ? FALSE : chance === 1 ? TRUE : { kind: 'chance', chance }
}

/** Of the lists of iptables mode: the endpoint that a client had. */
const AFFINITY_LIST = /^KUBE-SEP-/

const recent: Judge = ({ options }, _, prediction) => {
  const option = (name: string): RuleOption | undefined => options.find((one) => one.name === name)
  const set = option('--set')
  if (set !== undefined) return set.negated ? FALSE : TRUE
  const seconds = Number(option('--seconds')?.values[0] ?? 0)
  if (!AFFINITY_LIST.test(option('--name')?.values[0] ?? '') || option('--rcheck') === undefined)
    return unknown('recent, which depends on earlier packets')
  prediction.affinitySeconds = Math.max(prediction.affinitySeconds, seconds)
  return FALSE
}

const physdev = each((option, state) => {
  if (!state.isBridged) return option.name.startsWith('--physdev-') ? is(false, option) : NOT_UNDERSTOOD
  return option.name === '--physdev-is-in' ? is(true, option) : NOT_UNDERSTOOD
})

/** The packet comes from where this node would send an answer. */
const rpfilter: Judge = ({ options }, state, prediction) => {
  const inverted = options.some(({ name }) => name === '--invert')
  const back = prediction.route({ destination: state.source, source: undefined, arrivesAt: undefined, mark: 0 })
  const isLoose = options.some(({ name }) => name === '--loose')
  const isSame = back?.decision.kind === 'out' && (isLoose || back.decision.interface === state.inInterface)
  return (isSame || state.inInterface === 'lo') === inverted ? FALSE : TRUE
}

const ALWAYS: Judge = () => TRUE

/** Stands for the conditions of a rule that iptables cannot print (`textOf` in src/iptables/read-rules.ts). */
const nft: Judge = ({ options }) => {
  const handle = options.find(({ name }) => name === '--handle')?.values[0] ?? ''
  return unknown(`it was made with nft, and "nft -a list ruleset" shows it at "handle ${handle}"`)
}

/** By the name of the match; '' has the options that need no module. */
export const JUDGES: ReadonlyMap<string, Judge> = new Map([
  ['', head],
  ['comment', ALWAYS],
  ['nfacct', ALWAYS],
  ['limit', ALWAYS],
  ['tcp', ports('tcp')],
  ['udp', ports('udp')],
  ['sctp', ports('sctp')],
  ['icmp', icmp],
  ['icmp6', icmp],
  ['icmpv6', icmp],
  ['ipv6-icmp', icmp],
  ['multiport', multiport],
  ['set', set],
  ['mark', markOf(({ mark }) => mark)],
  ['connmark', markOf(({ connectionMark }) => connectionMark)],
  ['conntrack', connection],
  ['state', connection],
  ['addrtype', addrtype],
  ['ipvs', ipvs],
  ['statistic', statistic],
  ['recent', recent],
  ['physdev', physdev],
  ['rpfilter', rpfilter],
  ['nft', nft],
  [
    'pkttype',
    each((option) => (option.name === '--pkt-type' ? is(option.values[0] === 'unicast', option) : NOT_UNDERSTOOD)),
  ],
])
