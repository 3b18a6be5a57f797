/**
 * Builds the program as the image holds it: `dist/kube-ipvs.mjs` and the chunks that are loaded on demand. koffi stays
 * outside the bundle, because it loads its binary from a separate package, `@koromix/koffi-linux-x64` or `-arm64`: an image
 * needs both packages in a `node_modules` beside the program (`copyNative`).
 */
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { build, type Metafile, type Plugin } from 'esbuild'

const ROOT = join(import.meta.dirname, '..')

/** yaml's and winston's CommonJS files load node's modules with `require`, which an ES module does not have. */
const BANNER =
  "import { createRequire as createRequireForBundle } from 'node:module';const require = createRequireForBundle(import.meta.url);"

/**
 * Removes what client-node loads and this program never uses: an HTTP client, agents for proxies, the classes of every
 * API group. Two thirds of the code, and most of the time to load it.
 */
const lean: Plugin = {
  name: 'lean',
  setup(setup) {
    for (const [filter, contents] of LEAN) {
      // The replacement of a module may load the module itself later.
      setup.onResolve({ filter }, ({ path, resolveDir, namespace }) =>
        namespace === 'lean' ? undefined : { path, namespace: 'lean', pluginData: resolveDir },
      )
      setup.onLoad({ filter, namespace: 'lean' }, ({ pluginData }) => ({ contents, resolveDir: pluginData }))
    }
  },
}

/** Imported modules, and the source of their replacements. */
const LEAN: readonly (readonly [filter: RegExp, contents: string])[] = [
  // An import of node:http evaluates all its exports, WebSocket among them, which loads Node's own undici: 30 ms.
  [
    /^(node:)?http$/,
    `const http = require('node:http')
export default http
export const { Agent, createServer, request } = http`,
  ],
  // The program uses client-node for TLS material and headers, and makes the connections itself.
  [/^undici$/, 'export class Agent {}\nexport class ProxyAgent {}\nexport const fetch = globalThis.fetch'],
  [/^socks-proxy-agent$/, 'export class SocksProxyAgent {}'],
  [/^socks$/, 'export class SocksClient {}'],
  [/^hpagent$/, 'export class HttpProxyAgent {}\nexport class HttpsProxyAgent {}'],
  // For the plugins of two clouds; loaded when one of them is used.
  [/^jsonpath-plus$/, `export const JSONPath = (...args) => require('jsonpath-plus').JSONPath(...args)`],
  // Only client-node's config.js, the one file that is imported of it, names this.
  [
    /^\.\/gen\/index\.js$/,
    `export { createConfiguration } from './gen/configuration.js'
export { ServerConfiguration } from './gen/servers.js'`,
  ],
]

export interface Bundle {
  /** The file that node runs. */
  readonly entry: string
  /** All files together, in bytes. */
  readonly bytes: number
  /** Folders of the npm packages whose code is in it, relative to the repository: `node_modules/winston`. */
  readonly packages: readonly string[]
}

export interface BundleOptions {
  /** Emptied first. Default `dist` in the repository. */
  readonly directory?: string
  /** False keeps names and lines for profiles. Default true. */
  readonly minify?: boolean
}

/** Rejects with esbuild's own messages when a file does not resolve. */
export async function bundle({ directory = join(ROOT, 'dist'), minify = true }: BundleOptions = {}): Promise<Bundle> {
  rmSync(directory, { recursive: true, force: true })
  const result = await build({
    absWorkingDir: ROOT,
    entryPoints: { 'kube-ipvs': 'src/main.ts' },
    // The names of chunks depend on this path, so it is the same wherever the files are written.
    outdir: join(ROOT, 'dist'),
    write: false,
    outExtension: { '.js': '.mjs' },
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    splitting: true,
    // Not the names, which appear in errors and profiles; keepNames would cost a call for every closure that is made.
    minifyWhitespace: minify,
    minifySyntax: minify,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    external: ['koffi'],
    plugins: [lean],
    banner: { js: BANNER },
    logLevel: 'silent',
    metafile: true,
    sourcemap: 'external',
  })
  for (const { path, contents } of result.outputFiles) {
    const file = join(directory, relative(join(ROOT, 'dist'), path))
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, contents)
  }
  const outputs = Object.entries(result.metafile.outputs).filter(([path]) => !path.endsWith('.map'))
  for (const [path] of outputs) writeLogLines(join(directory, relative('dist', path)))
  const bytes = outputs.reduce((sum, [, output]) => sum + output.bytes, 0)
  return { entry: join(directory, 'kube-ipvs.mjs'), bytes, packages: packagesOf(outputs.map(([, output]) => output)) }
}

/** The packages of which something is left after the bundler removed what is never used. */
function packagesOf(outputs: readonly Metafile['outputs'][string][]): readonly string[] {
  const inputs = outputs.flatMap((output) =>
    Object.entries(output.inputs).filter(([, input]) => input.bytesInOutput > 0),
  )
  const folders = inputs.flatMap(([path]) => /(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? [])
  return [...new Set(folders)].sort()
}

/** Calls of the log, at the place that the engine reports: that of the function's name. The last two are those of cli/early-lines. */
const LOG_CALL = /(?<=\.)(?:info|verbose|warn|error|print|v)\(|\b(?:writeLine|writeEarlyLine)\(/g

/** `NAME.lines` beside a file of the bundle: the line of the sources of each call of the log. */
function writeLogLines(path: string): void {
  const map = `${path}.map`
  const source = new SourceMap(JSON.parse(readFileSync(map, 'utf8')))
  rmSync(map)
  const places: Record<string, string> = {}
  for (const [index, line] of readFileSync(path, 'utf8').split('\n').entries()) {
    for (const { index: column } of line.matchAll(LOG_CALL)) {
      const entry = source.findEntry(index, column)
      if (!('originalSource' in entry) || !/(^|\/)src\//.test(entry.originalSource)) continue
      const { originalSource, originalLine } = entry
      const folder = basename(dirname(originalSource))
      places[`${index + 1}:${column + 1}`] = `${folder}/${basename(originalSource)}:${originalLine + 1}`
    }
  }
  if (Object.keys(places).length > 0) writeFileSync(`${path}.lines`, JSON.stringify(places))
}

/** The files of koffi that a running program reads; the others are its sources in C++ and documentation. */
const KOFFI_FILES = ['package.json', 'LICENSE.txt', 'index.js', 'index.cjs', 'src']
const isProgramFile = (path: string): boolean =>
  /\.c?js$|\.json$|LICENSE\.txt$/.test(path) || statSync(path).isDirectory()

/** The package with koffi's binary for an architecture. */
export const koffiBinary = (arch: string): string => `@koromix/koffi-linux-${arch}`

/**
 * Copies koffi and its binary for this architecture, which the bundle does not include, into `node_modules` of a directory. Throws
 * when npm has not installed the binary (it is an optional dependency), unless its folder is given.
 */
export function copyNative(directory: string, arch: string = process.arch, binaryFolder?: string): void {
  const binary = koffiBinary(arch)
  const from = join(ROOT, 'node_modules')
  const to = join(directory, 'node_modules')
  const folder = binaryFolder ?? join(from, binary)
  if (!existsSync(folder)) throw new Error(`the package ${binary} is not installed: run npm ci on that architecture`)
  // The binary for musl is not used with Node's own builds, which need glibc.
  const isUsed = (path: string): boolean => !basename(path).startsWith('musl_')
  cpSync(folder, join(to, binary), { recursive: true, filter: isUsed })
  for (const file of KOFFI_FILES)
    cpSync(join(from, 'koffi', file), join(to, 'koffi', file), { recursive: true, filter: isProgramFile })
}

if (import.meta.main) {
  const { entry, bytes } = await bundle()
  copyNative(dirname(entry))
  process.stdout.write(`${entry}: ${(bytes / 1024).toFixed(0)} KiB with its chunks\n`)
}
