/**
 * Builds the program as the image holds it: `dist/program.js` with V8's code cache beside it, and `dist/kube-ipvs.cjs`, which runs it. koffi
 * stays outside the bundle, because it loads its binary from a separate package, `@koromix/koffi-linux-x64` or `-arm64`: an image
 * needs both packages in a `node_modules` beside the program (`copyNative`).
 */
import { copyFileSync, cpSync, existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { build, type Metafile, type Plugin, stop } from 'esbuild'
import { writeCodeCache } from './code-cache.ts'

const ROOT = join(import.meta.dirname, '..')

/** The program is one function expression, which dev/entry.cjs calls. */
const BANNER = '(function(require,__filename){'
const FOOTER = '})'

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
  /** The program without its code cache, in bytes. */
  readonly bytes: number
  /** Folders of the npm packages whose code is in it, relative to the repository: `node_modules/winston`. */
  readonly packages: readonly string[]
}

export interface BundleOptions {
  /** Emptied first. Default `dist` in the repository. */
  readonly directory?: string
  /** False keeps lines for profiles. Default true. */
  readonly minify?: boolean
  /** Whose node runs it: V8's code cache is only for the architecture that made it. Default this machine's. */
  readonly arch?: string
}

/** Rejects with esbuild's own messages when a file does not resolve. */
export async function bundle({
  directory = join(ROOT, 'dist'),
  minify = true,
  arch = process.arch,
}: BundleOptions = {}): Promise<Bundle> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: ['src/main.ts'],
    outfile: join(ROOT, 'dist/program.js'),
    write: false,
    bundle: true,
    // Not the names, which appear in errors and profiles; keepNames would cost a call for every closure that is made.
    minifyWhitespace: minify,
    minifySyntax: minify,
    format: 'cjs',
    platform: 'node',
    target: 'node22',
    // An `import()` of one of Node's modules becomes a require, because a script has no loader of modules.
    supported: { 'dynamic-import': false },
    define: { 'import.meta.url': '__filename' },
    external: ['koffi'],
    plugins: [lean],
    banner: { js: BANNER },
    footer: { js: FOOTER },
    logLevel: 'silent',
    metafile: true,
    sourcemap: 'external',
  })
  // Else its process would stay until this one ends.
  await stop()
  const output = Object.entries(metafile.outputs).find(([path]) => path.endsWith('.js'))?.[1]
  const text = outputFiles.find(({ path }) => path.endsWith('.js'))?.text
  const map = outputFiles.find(({ path }) => path.endsWith('.map'))?.text
  if (output === undefined || text === undefined || map === undefined) throw new Error('esbuild made no program')
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  const entry = join(directory, 'kube-ipvs.cjs')
  const program = join(directory, 'program.js')
  copyFileSync(join(import.meta.dirname, 'entry.cjs'), entry)
  writeFileSync(program, text)
  writeFileSync(`${program}.lines`, JSON.stringify(logLines(text, map)))
  if (arch === process.arch) writeCodeCache(program)
  return { entry, bytes: output.bytes, packages: packagesOf(output) }
}

/** The packages of which something is left after the bundler removed what is never used. */
function packagesOf(output: Metafile['outputs'][string]): readonly string[] {
  const inputs = Object.entries(output.inputs).filter(([, input]) => input.bytesInOutput > 0)
  const folders = inputs.flatMap(([path]) => /(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? [])
  return [...new Set(folders)].sort()
}

/** Calls of the log, at the place that the engine reports: that of the function's name. The last two are those of cli/early-lines. */
const LOG_CALL = /(?<=\.)(?:info|verbose|warn|error|print|v)\(|\b(?:writeLine|writeEarlyLine)\(/g

/** `program.js.lines`: the line of the sources of each call of the log. */
function logLines(text: string, map: string): Readonly<Record<string, string>> {
  const source = new SourceMap(JSON.parse(map))
  const places: Record<string, string> = {}
  for (const [index, line] of text.split('\n').entries()) {
    for (const { index: column } of line.matchAll(LOG_CALL)) {
      const entry = source.findEntry(index, column)
      if (!('originalSource' in entry) || !/(^|\/)src\//.test(entry.originalSource)) continue
      const { originalSource, originalLine } = entry
      const folder = basename(dirname(originalSource))
      places[`${index + 1}:${column + 1}`] = `${folder}/${basename(originalSource)}:${originalLine + 1}`
    }
  }
  return places
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
  process.stdout.write(`${entry}: ${(bytes / 1024).toFixed(0)} KiB\n`)
}
