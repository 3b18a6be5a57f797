/** The version of the program: that of package.json, which the bundle carries with it. */
import manifest from '../../package.json' with { type: 'json' }

export const VERSION: string = manifest.version
