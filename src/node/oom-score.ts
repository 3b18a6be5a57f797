/**
 * How soon the kernel ends this process when memory runs out (oomScoreAdj of the configuration).
 * What could break: to lower it takes CAP_SYS_RESOURCE; a proxy without it runs on with the score it has.
 */
import { writeFileSync } from 'node:fs'

const FILE = '/proc/self/oom_score_adj'

/** Sets it, from -1000 (never) to 1000. Throws what the kernel says. @param file for tests */
export function setOomScore(score: number, file = FILE): void {
  writeFileSync(file, String(score))
}
