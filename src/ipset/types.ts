/**
 * Sets and their entries as this program knows them, and what can be done to them. Bytes exist only in the codecs.
 * What could break: an entry's text is its identity and must be what `ipset save` prints (no /32, no brackets), or the
 * same entry would be two.
 */
import type { IpFamily, Protocol } from '../values/protocol.ts'
import type { SetName } from './catalogue.ts'

/** What a set was created with. */
export interface SetParameters {
  /** Name of the kernel's type; one of SetType for a set we make. */
  readonly type: string
  /** undefined for a type without addresses (bitmap:port): NFPROTO_UNSPEC. */
  readonly family: IpFamily | undefined
  /** maxelem: entries a hash set takes; 0 for a bitmap, whose range is its limit. */
  readonly maxElements: number
  /** First and last port of a bitmap, else 0. */
  readonly firstPort: number
  readonly lastPort: number
  /** Options that we never set, as the ipset command spells them (`timeout 300 counters`); '' for none. */
  readonly extras: string
}

/** A set as the kernel lists it. */
export interface ListedSet extends SetParameters {
  readonly name: SetName
  /** Present number of buckets of a hash set, else 0: the kernel's own business. */
  readonly hashSize: number
  /** Rules and other sets that refer to it. */
  readonly references: number
  /** Entries in it. Kernels before 4.9 do not tell: 0. */
  readonly elements: number
}

export type SetOperation =
  | { readonly kind: 'create-set' | 'destroy-set'; readonly name: SetName; readonly parameters: SetParameters }
  /** A set of this name has other parameters: another one, with its entries where types are equal, takes its place. */
  | {
      readonly kind: 'replace-set'
      readonly name: SetName
      readonly parameters: SetParameters
      /** What the one that goes was created with. */
      readonly replaced: SetParameters
    }

/** `KUBE-CLUSTER-IP 10.96.0.1,tcp:443`: identity of an entry among all sets. */
export type SetEntryKey = string

export interface SetEntry {
  readonly set: SetName
  /** `10.96.0.1,tcp:443`; as `ipset save` prints it. */
  readonly entry: string
  /** IPSET_FLAG_NOMATCH: an exception inside the set. We never set one; somebody else may have. */
  readonly noMatch?: true
}

export interface SetEntryOperation extends SetEntry {
  readonly kind: 'add-entry' | 'delete-entry'
}

/** The parts of an entry; which ones there are depends on the type of the set. */
export interface EntryParts {
  readonly address?: string
  /** A port with its protocol; a bitmap's has none. `protocol` is a name we know or the number. */
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
