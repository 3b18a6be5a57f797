/** The parts of the evidence, in the order in which they run and appear. */
import { apiLoad } from './api-load.ts'
import { chaos } from './chaos.ts'
import { fuzz } from './fuzz/part.ts'
import { kernels } from './kernels.ts'
import { outliers } from './outliers.ts'
import type { Part } from './part.ts'
import { soak } from './soak.ts'
import { supplyChain } from './supply-chain.ts'
import { upgrade } from './upgrade.ts'

export const PARTS: readonly Part[] = [supplyChain, kernels, upgrade, fuzz, apiLoad, soak, chaos, outliers]
