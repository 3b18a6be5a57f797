/** How much a run of the tests covers: a quick one by default, everything with `npm test -- --all` and in CI. */

/** In the environment of a test process: `1` for a run that covers everything. */
export const FULL_RUN_VARIABLE = 'KUBE_IPVS_FULL_RUN'
