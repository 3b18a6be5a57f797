/** Gives a bundle another package koffi than that of the repository. */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { build, stop } from 'esbuild'

/** Puts the package, made from the module `source`, beside the program in `directory`, where Node finds it before the real one. */
export async function placeKoffi(directory: string, source: string): Promise<void> {
  await build({
    entryPoints: [source],
    outfile: join(directory, 'node_modules/koffi/index.js'),
    bundle: true,
    format: 'cjs',
    platform: 'node',
    define: { REAL_KOFFI: JSON.stringify(createRequire(import.meta.url).resolve('koffi')) },
    logLevel: 'silent',
  })
  // Else its process would stay until this one ends.
  await stop()
}
