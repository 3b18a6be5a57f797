/**
 * Flags the image gives to node, and therefore the bench too. They suit a program that loads a cluster once and then
 * rests: what a start allocates is nearly all kept, and no code is hot for long.
 * - A young generation of 4 MiB instead of 16: the rest would be touched once and never given back.
 * - One helper thread is enough, and none for the young generation.
 * - Maglev and Liftoff only, and Maglev with little inlining: the compilers would work through the whole start, and take
 *   memory for it, for code that then rests.
 * - `gc` for the one collection after a start (src/daemon/process.ts).
 * Together with src/daemon/process.ts they take a quarter off the processor time of a start at 10,000 Services, and 20 MiB off
 * the memory.
 */
export const NODE_FLAGS: readonly string[] = [
  '--max-semi-space-size=4',
  '--v8-pool-size=1',
  '--no-parallel-scavenge',
  '--no-turbofan',
  '--liftoff-only',
  '--max-maglev-inlined-bytecode-size=100',
  '--expose-gc',
]
