/**
 * The seed of all property tests of a run. It is the same in every run, so that the same commit has
 * the same result; `npm test -- --new-seed` looks for values that nobody has tried yet, and prints
 * the seed that repeats its run.
 */
/** In the environment: a whole number, the seed. */
export const SEED_VARIABLE = 'KUBE_IPVS_SEED'

const DEFAULT_SEED = 1
const SEEDS = 2 ** 31

/** Undefined when the variable holds something else than a whole number below 2³¹. */
export function seedOf(env: Readonly<Record<string, string | undefined>>, isNew: boolean): number | undefined {
  if (isNew) return Math.floor(Math.random() * SEEDS)
  const given = env[SEED_VARIABLE]
  if (given === undefined) return DEFAULT_SEED
  const seed = Number(given)
  return /^\d+$/.test(given) && seed < SEEDS ? seed : undefined
}
