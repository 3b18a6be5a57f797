/**
 * Refusals of nf_tables with the command that failed and what they mean. The kernel's own code stays
 * (`EBUSY`); a missing part of the kernel, and a table of another socket, get codes of ours.
 */
import { KernelError } from '../netlink/errors.ts'
import { asError, CodedError, MissingFeature } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { NFT_FAMILY, type NftItem, type NftOperation, type NftStatement, PRIVATE_TABLE } from './types.ts'
import { ownMember } from '../values/own-member.ts'

/** Explanations of codes whose name alone is not clear. */
const EXPLANATIONS: Readonly<Record<string, string>> = {
  ENOENT: 'it, its set or its chain does not exist',
  EBUSY: 'it is in use, or it is there with another verdict',
  EEXIST: 'it is there already, and differs',
  ELOOP: 'chains jump in a circle',
  EMLINK: 'chains jump too deep',
}

/** The module that brings what a statement needs; all of them need nf_tables. */
export function moduleOf(statement: NftStatement, family: IpFamily): string | undefined {
  switch (statement.kind) {
    case 'new-connection':
      return 'nft_ct'
    case 'keep-destination':
      return 'nft_nat'
    case 'masquerade':
      return 'nft_masq'
    case 'reject':
      return family === 'IPv4' ? 'nft_reject_ipv4' : 'nft_reject_ipv6'
    default:
      return undefined
  }
}

/** The kernel's name of the expression that a module has. */
const EXPRESSION: Readonly<Record<string, string>> = {
  nft_ct: 'ct',
  nft_masq: 'masq',
  nft_nat: 'nat',
  nft_reject_ipv4: 'reject',
  nft_reject_ipv6: 'reject',
}

/** The kernel has no nf_tables for a family. */
export function missingNfTables(family?: IpFamily): MissingFeature {
  const of = family === undefined ? '' : ` for ${family}`
  return new MissingFeature(
    'nftables-missing',
    'nf_tables',
    'module nf_tables',
    `the kernel has no nf_tables${of}: load the module nf_tables (modprobe nf_tables)`,
  )
}

/**
 * The error of a reading: EINVAL is that of nfnetlink, which has no such subsystem, EOPNOTSUPP that of
 * nf_tables, which was built without this family. Expressions are never named here: without them no rule was made.
 */
export function namedReadError(cause: unknown, family: IpFamily): Error {
  const code = cause instanceof KernelError ? cause.code : undefined
  if (code === 'EINVAL') return missingNfTables()
  return code === 'EOPNOTSUPP' || code === 'EAFNOSUPPORT' ? missingNfTables(family) : asError(cause)
}

/** The private table belongs to another socket. */
export function ownedByOther(family: IpFamily, owner: number): CodedError {
  return new CodedError(
    'nftables-owned',
    `the table ${NFT_FAMILY[family]} ${PRIVATE_TABLE} belongs to another socket (port id ${owner}, which is mostly the id of its process), and only that one can change it`,
  )
}

/** Elements are added to a set that is not there. */
export function missingSet(family: IpFamily, name: string, cause: Error): CodedError {
  return new CodedError('ENOENT', `the set ${NFT_FAMILY[family]} ${PRIVATE_TABLE} ${name} does not exist`, { cause })
}

/** Where an item of the transaction was refused. */
export interface RefusedPart {
  readonly item: NftItem
  readonly kind?: NftOperation['kind']
  /** NEWCHAIN or NEWRULE, where one of a chain was refused. */
  readonly message?: 'NEWCHAIN' | 'NEWRULE'
  /** Index of the rule. */
  readonly rule?: number
}

/** The kernel's refusal of a command, as an operator would type it. Any error that is no KernelError is returned unchanged. */
export function namedRefusal(cause: unknown, command: string, part: RefusedPart): Error {
  if (!(cause instanceof KernelError)) return asError(cause)
  const missing = missingPart(cause, part)
  if (missing !== undefined) return missing
  const explanation = ownMember(EXPLANATIONS, cause.code)
  const why = cause.extendedAck.text ?? explanation
  return new CodedError(cause.code, `${shortened(command)}: ${cause.code}${why === undefined ? '' : ` (${why})`}`, {
    cause,
  })
}

/** A chain may have very many rules. */
function shortened(command: string): string {
  return command.length <= MAX_COMMAND ? command : `${command.slice(0, MAX_COMMAND)} …`
}

const MAX_COMMAND = 500

/** What the kernel lacks, if that is why it refused; undefined for any other reason. */
export function missingPart(
  { code }: KernelError,
  { item, kind, message, rule }: RefusedPart,
): MissingFeature | undefined {
  // A table that is there does not change its owner.
  if (item.kind === 'table' && kind !== 'replace' && (code === 'EOPNOTSUPP' || code === 'EAFNOSUPPORT'))
    return missingNfTables(item.family)
  if (item.kind !== 'chain' || (code !== 'ENOENT' && code !== 'EOPNOTSUPP')) return undefined
  if (message === 'NEWCHAIN')
    return item.hook?.type === 'nat' ? missing('chains of type nat', 'nft_chain_nat') : undefined
  const statements = item.rules[rule ?? -1]?.statements ?? []
  // ENOENT is also the answer to a set or chain that does not exist.
  if (code === 'ENOENT' && statements.some(namesOther)) return undefined
  const needs = new Set<string>()
  for (const statement of statements) {
    const module = moduleOf(statement, item.family)
    if (module !== undefined) needs.add(module)
  }
  const [module, ...more] = needs
  return module === undefined || more.length > 0
    ? undefined
    : missing(`the expression ${ownMember(EXPRESSION, module) ?? module}`, module)
}

/** Whether a statement names a set or a chain. */
function namesOther(statement: NftStatement): boolean {
  if (statement.kind === 'lookup' || statement.kind === 'verdict-map') return true
  return statement.kind === 'verdict' && 'chain' in statement.action
}

function missing(feature: string, module: string): MissingFeature {
  return new MissingFeature(
    'nftables-missing',
    feature,
    `module ${module}`,
    `the kernel's nf_tables lacks ${feature}: load the module ${module} (modprobe ${module})`,
  )
}
