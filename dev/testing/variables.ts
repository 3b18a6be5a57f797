/** Names of environment variables by which a run tells tests which programs it has made (programs.ts). */

/** The program under test, the bundle; without it tests start the sources. */
export const PROGRAM_VARIABLE = 'KUBE_IPVS_PROGRAM'
/** The compiled `dev/bench/traffic.c`; without it tests compile it. */
export const TRAFFIC_VARIABLE = 'KUBE_IPVS_TRAFFIC'
/** A folder of a guest for the answers to what tests need of its kernel, which are the same for all files. */
export const ANSWERS_VARIABLE = 'KUBE_IPVS_ANSWERS'
