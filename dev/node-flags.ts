/**
 * Flags the image gives to node, and therefore the bench too. They suit a program that loads a
 * cluster once and then rests: what a start allocates is nearly all kept, and no code is hot for
 * long.
 * - A young generation of 4 MiB instead of 16: the rest would be touched once and never given back.
 * - One helper thread is enough, and none for the young generation.
 * - Maglev with little inlining, which takes memory too.
 * Only flags that V8 leaves out of the hash in its code caches: with any other, Node compiles its
 * own modules at each start, which takes longer than all the rest of a start
 * (test/dev/bundle.test.ts). src/daemon/process.ts sets the others once the program is loaded.
 */
export const NODE_FLAGS: readonly string[] = [
  '--max-semi-space-size=4',
  '--v8-pool-size=1',
  '--no-parallel-scavenge',
  '--max-maglev-inlined-bytecode-size=100',
]
