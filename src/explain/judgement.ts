/** What is known about whether a packet matches. */
export type Judgement =
  /** `sets`: those that were looked up, with the entry that was found. */
  | { readonly kind: 'yes'; readonly sets?: readonly { readonly name: string; readonly entry: string | undefined }[] }
  | { readonly kind: 'no' }
  /** With this chance, above 0 and below 1. */
  | { readonly kind: 'chance'; readonly chance: number }
  /** `because`: what is not understood, in a few words. */
  | { readonly kind: 'unknown'; readonly because: string }

export const TRUE: Judgement = { kind: 'yes' }
export const FALSE: Judgement = { kind: 'no' }

export function unknown(because: string): Judgement {
  return { kind: 'unknown', because }
}
