/**
 * Sets and their entries as this program knows them, and the operations on them. Bytes exist only
 * in the codecs. An entry's text is its identity and must be what `ipset save` prints (no /32, no
 * brackets), or one entry would have two identities.
 */
import type { IpFamily, Protocol } from '../values/protocol.ts'
import type { SetName } from './catalogue.ts'

/** The parameters that a set was created with. */
export interface SetParameters {
  /** Name of the kernel's type; one of SetType for our sets. */
  readonly type: string
  /** undefined for a type without addresses (bitmap:port): NFPROTO_UNSPEC. */
  readonly family: IpFamily | undefined
  /** maxelem: the capacity of a hash set; 0 for a bitmap, whose range is its limit. */
  readonly maxElements: number
  /** First and last port of a bitmap, else 0. */
  readonly firstPort: number
  readonly lastPort: number
  /** Options that we never set, as the ipset command spells them (`timeout 300 counters`); '' for none. */
  readonly extras: string
  /** The set was enlarged, and what it holds now fits twice into a set of MAX_ELEMENTS. */
  readonly isOversized?: true
}

/** A set as the kernel lists it. */
export interface ListedSet extends SetParameters {
  readonly name: SetName
  /** Present number of buckets of a hash set, else 0. The kernel chooses it. */
  readonly hashSize: number
  /** Number of rules and other sets that refer to it. */
  readonly references: number
  /** Number of entries; 0 with kernels before 4.9, which do not send it. */
  readonly elements: number
}

export type SetOperation =
  | { readonly kind: 'create-set' | 'destroy-set'; readonly name: SetName; readonly parameters: SetParameters }
  /** A set of this name has other parameters: it is replaced, with its entries if the types are equal. */
  | {
      readonly kind: 'replace-set'
      readonly name: SetName
      readonly parameters: SetParameters
      /** The parameters of the replaced set. */
      readonly replaced: SetParameters
    }

/** `KUBE-CLUSTER-IP 10.96.0.1,tcp:443`: identity of an entry among all sets. */
export type SetEntryKey = string

export interface SetEntry {
  readonly set: SetName
  /** `10.96.0.1,tcp:443`; as `ipset save` prints it. */
  readonly entry: string
  /** IPSET_FLAG_NOMATCH: an exception inside the set. We never set one; another program may. */
  readonly noMatch?: true
}

export interface SetEntryOperation extends SetEntry {
  readonly kind: 'add-entry' | 'delete-entry'
}

/** The parts of an entry; the type of the set decides which ones exist. */
export interface EntryParts {
  readonly address?: string
  /** A port with its protocol, which a bitmap's entry does not have. `protocol` is a known name or the number. */
  readonly port?: number
  readonly protocol?: Protocol | number
  /** Second address (hash:ip,port,ip) or network (hash:ip,port,net). */
  readonly second?: string
  /** Prefix length of the second address; absent where the type has none. */
  readonly secondLength?: number
}

/** `KUBE-CLUSTER-IP 10.96.0.1,tcp:443` */
export function entryKey(entry: SetEntry): SetEntryKey {
  return `${entry.set} ${entry.entry}`
}

/** The set that an entry's key names. */
export function setOfKey(key: SetEntryKey): SetName {
  return key.slice(0, key.indexOf(' '))
}
