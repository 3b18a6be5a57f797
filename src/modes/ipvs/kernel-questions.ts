/**
 * Asks the kernel the questions of the start check: IPVS, ipset and nf_tables by netlink, legacy
 * iptables by getsockopt. Only the kernel's answer counts: neither a file of modules on a disk nor
 * a loaded module proves that a feature works.
 */
import { existsSync } from 'node:fs'
import { findNetfilter, openNetlinkConnection } from '../../../native/open.ts'
import { askXtables } from '../../../native/xtables-query.ts'
import type { SetType } from '../../ipset/catalogue.ts'
import { REVISION } from '../../ipset/codec.ts'
import { IpsetConnection } from '../../ipset/connection.ts'
import { hasExtension, hasNftCompat, tryNftFamily } from '../../nftables/support.ts'
import { IpvsConnection } from '../../ipvs/connection.ts'
import { askScheduler } from '../../ipvs/scheduler.ts'
import type { NetlinkConnection } from '../../netlink/connection.ts'
import { NETLINK_GENERIC } from '../../netlink/constants.ts'
import { hasSubsystem } from '../../netlink/subsystems.ts'
import type { Question } from '../../node/needs.ts'
import { unlessMissing } from '../../values/errors.ts'
import type { IpFamily } from '../../values/protocol.ts'

/** Exists once nf_conntrack is loaded. */
const CONNTRACK_FILE = '/proc/sys/net/netfilter/nf_conntrack_max'

export class KernelQuestions {
  readonly #mode: 'nft' | 'legacy' | undefined
  readonly #signal: AbortSignal
  readonly #trials = new Map<IpFamily, 'works' | 'no-family' | 'no-nat'>()
  readonly #netfilter: NetlinkConnection | undefined
  #ipvs: IpvsConnection | undefined
  #ipset: IpsetConnection | undefined

  /**
   * @param mode back end of iptables whose matches and targets are meant
   * @param triedNft families whose nf_tables is known to work: each trial costs some 50 ms
   */
  constructor(mode: 'nft' | 'legacy' | undefined, triedNft: readonly IpFamily[], signal: AbortSignal) {
    this.#mode = mode
    this.#signal = signal
    for (const family of triedNft) this.#trials.set(family, 'works')
    this.#netfilter = findNetfilter()
  }

  /** Whether the kernel has it; undefined: unknown. Rejects when the kernel cannot be asked (EPERM). */
  async ask({ kind, name, family }: Question): Promise<boolean | undefined> {
    const options = { signal: this.#signal }
    switch (kind) {
      case 'IPVS':
        this.#ipvs = await unlessMissing('genl-family-missing', () =>
          IpvsConnection.open(openNetlinkConnection(NETLINK_GENERIC), options),
        )
        return this.#ipvs !== undefined
      case 'scheduler':
        return SCHEDULER_ANSWERS[await this.#askScheduler(name)]
      case 'IPVS of IPv6':
        return (await this.#askScheduler('rr')) !== 'no-ipv6'
      case 'ipset':
        this.#ipset = await unlessMissing('ipset-missing', async () => {
          const netlink = findNetfilter()
          return netlink === undefined ? undefined : IpsetConnection.open(netlink, options)
        })
        return this.#ipset !== undefined
      case 'set type':
        return this.#hasSetType(name, family)
      case 'nf_tables':
        return this.#hasNfTables(family)
      case 'nft_chain_nat':
        return (await this.#tryNft(family)) === 'works'
      case 'nft_compat':
        return this.#netfilter !== undefined && hasNftCompat(this.#netfilter, options)
      case 'ip_tables':
        return family === undefined ? undefined : askXtables('match', 'set', family) !== 'not-loaded'
      case 'match':
      case 'target':
        if (family === undefined) return undefined
        if (this.#mode === 'legacy') return askXtables(kind, name, family) === 'present'
        return this.#netfilter !== undefined && hasExtension(this.#netfilter, { kind, name }, family, options)
      case 'connection tracking':
        return existsSync(CONNTRACK_FILE)
      case 'ctnetlink':
        return this.#netfilter !== undefined && hasSubsystem(this.#netfilter, kind, options)
    }
  }

  close(): void {
    this.#netfilter?.close()
    this.#ipvs?.close()
    this.#ipset?.close()
  }

  async #askScheduler(name: string): Promise<keyof typeof SCHEDULER_ANSWERS> {
    return this.#ipvs === undefined ? 'unknown' : askScheduler(this.#ipvs, name, { signal: this.#signal })
  }

  async #hasNfTables(family: IpFamily | undefined): Promise<boolean> {
    if (this.#netfilter === undefined) return false
    if (!(await hasSubsystem(this.#netfilter, 'nf_tables', { signal: this.#signal }))) return false
    return (await this.#tryNft(family)) !== 'no-family'
  }

  /** A trial takes the kernel some time, so there is one for each family. */
  async #tryNft(family: IpFamily | undefined): Promise<'works' | 'no-family' | 'no-nat' | undefined> {
    if (family === undefined || this.#netfilter === undefined) return undefined
    const known = this.#trials.get(family)
    if (known !== undefined) return known
    const result = await tryNftFamily(this.#netfilter, family, { signal: this.#signal })
    this.#trials.set(family, result)
    return result
  }

  async #hasSetType(name: string, family: IpFamily | undefined): Promise<boolean | undefined> {
    const type = isSetType(name) ? name : undefined
    if (type === undefined || this.#ipset === undefined) return undefined
    const revisions = await this.#ipset.typeRevisions(type, family, { signal: this.#signal })
    return revisions !== undefined && revisions.lowest <= REVISION[type] && REVISION[type] <= revisions.highest
  }
}

const SCHEDULER_ANSWERS = { present: true, missing: false, 'no-ipv6': undefined, unknown: undefined } as const

const isSetType = (name: string): name is SetType => Object.hasOwn(REVISION, name)
