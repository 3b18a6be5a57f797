/**
 * Builds the program as the image holds it: `dist/kube-ipvs.cjs`, which runs `main.js`, which reads
 * the command line and loads `daemon.js` or `tools.js`; V8's code cache is beside each. koffi stays
 * outside, because it loads its binary from a separate package, `@koromix/koffi-linux-x64` or
 * `-arm64`: an image needs both packages in a `node_modules` beside the program (`copyNative`).
 */
import { copyFileSync, cpSync, existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { build, type Metafile, type Plugin, stop } from 'esbuild'
import { writeCodeCache } from './code-cache.ts'

const ROOT = join(import.meta.dirname, '..')

/** The entry of each bundle. src/main.ts imports the entries of the others, which it finds beside itself. */
const ENTRIES = { main: 'src/main.ts', daemon: 'src/start/main.ts', tools: 'src/cli/main.ts' } as const
export type BundleName = keyof typeof ENTRIES
export const BUNDLE_NAMES: readonly BundleName[] = ['main', 'daemon', 'tools']

/** A bundle is one function expression, which dev/entry.cjs calls. */
const BANNER = '(function(require,__filename,module){'
const FOOTER = '})'

/**
 * Removes what client-node loads and this program never uses: an HTTP client, agents for proxies,
 * the classes of every API group. Two thirds of the code, and most of the time to load it.
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
  // For the plugins of two clouds, which kube-config-load.ts refuses.
  [/^jsonpath-plus$/, `export const JSONPath = () => {\n  throw new Error('not in this bundle')\n}`],
  // kube-config-load.ts reads the kubeconfig, and hands it over as JSON.
  [/^js-yaml$/, 'export const load = JSON.parse'],
  // What winston has beside levels and transports: our log has a format and a sink of its own
  // (src/serve/log.ts). Its streams are an earlier version of Node's, which they themselves can be
  // switched to (READABLE_STREAM=disable).
  [/^readable-stream$/, `module.exports = require('node:stream')`],
  [/^readable-stream\/lib\/_stream_writable\.js$/, `module.exports = require('node:stream').Writable`],
  [/^@dabh\/diagnostics$/, 'module.exports = () => () => undefined'],
  [/^logform$/, `exports.format = require('logform/format')\nexports.levels = (config) => config`],
  [/^logform\/json$/, 'module.exports = () => undefined'],
  [/^\.\/winston\/transports$/, 'module.exports = {}'],
  // Nothing asks zod for a JSON schema.
  [
    /^\.\.\/core\/to-json-schema\.js$/,
    `export const createToJSONSchemaMethod = () => undefined
export const createStandardJSONSchemaMethod = () => undefined`,
  ],
  [/^\.\.\/core\/json-schema-processors\.js$/, 'export const toJSONSchema = undefined'],
  // Only client-node's config.js, the one file that is imported of it, names this.
  [
    /^\.\/gen\/index\.js$/,
    `export { createConfiguration } from './gen/configuration.js'
export { ServerConfiguration } from './gen/servers.js'`,
  ],
]

/** An import of one bundle by another one, which dev/entry.cjs resolves: `./daemon.js`. */
const parts: Plugin = {
  name: 'parts',
  setup(setup) {
    setup.onResolve({ filter: /\/main\.ts$/ }, ({ path, resolveDir, kind }) => {
      if (kind !== 'dynamic-import') return undefined
      const name = BUNDLE_NAMES.find((one) => join(ROOT, ENTRIES[one]) === join(resolveDir, path))
      return name === undefined ? undefined : { path: `./${name}.js`, external: true }
    })
  },
}

export interface Bundle {
  /** The file that node runs. */
  readonly entry: string
  /** Of each bundle, without its code cache. */
  readonly bytes: Readonly<Record<BundleName, number>>
  /** The files of each bundle, relative to the repository: `src/main.ts`. */
  readonly inputs: Readonly<Record<BundleName, readonly string[]>>
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
    entryPoints: ENTRIES,
    outdir: join(ROOT, 'dist'),
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
    plugins: [lean, parts],
    banner: { js: BANNER },
    footer: { js: FOOTER },
    logLevel: 'silent',
    metafile: true,
    sourcemap: 'external',
  })
  // Else its process would stay until this one ends.
  await stop()
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  const entry = join(directory, 'kube-ipvs.cjs')
  copyFileSync(join(import.meta.dirname, 'entry.cjs'), entry)
  const made = BUNDLE_NAMES.map((name) => {
    const output = metafile.outputs[`dist/${name}.js`]
    const [text, map] = ['js', 'js.map'].map(
      (end) => outputFiles.find(({ path }) => path.endsWith(`/${name}.${end}`))?.text,
    )
    if (output === undefined || text === undefined || map === undefined) throw new Error(`esbuild made no ${name}.js`)
    const script = join(directory, `${name}.js`)
    writeFileSync(script, text)
    writeFileSync(`${script}.lines`, JSON.stringify(logLines(text, map)))
    if (arch === process.arch) writeCodeCache(script)
    return { name, output }
  })
  return {
    entry,
    bytes: byName(made.map(({ name, output }) => [name, output.bytes])),
    inputs: byName(made.map(({ name, output }) => [name, inputsOf(output)])),
    packages: packagesOf(made.flatMap(({ output }) => inputsOf(output))),
  }
}

/** @param entries one for each bundle */
const byName = <Value>(entries: readonly (readonly [BundleName, Value])[]): Readonly<Record<BundleName, Value>> =>
  Object.fromEntries(entries) as Record<BundleName, Value> // fromEntries forgets which keys there are

/** The files of which something is left after the bundler removed what is never used. */
function inputsOf({ inputs }: Metafile['outputs'][string]): readonly string[] {
  return Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : []))
}

function packagesOf(files: readonly string[]): readonly string[] {
  const folders = files.flatMap((path) => /(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? [])
  return [...new Set(folders)].sort()
}

/**
 * Calls of the log, at the place that the engine reports: that of the function's name. The last two
 * are those of start/early-lines.
 */
const LOG_CALL = /(?<=\.)(?:info|verbose|warn|error|print|v)\(|\b(?:writeLine|writeEarlyLine)\(/g

/** `daemon.js.lines`: the line of the sources of each call of the log. */
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
 * Copies koffi and its binary for this architecture, which the bundle does not include, into
 * `node_modules` of a directory. Throws when npm has not installed the binary (it is an optional
 * dependency), unless its folder is given.
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
  const sizes = BUNDLE_NAMES.map((name) => `${name}.js ${(bytes[name] / 1024).toFixed(0)} KiB`)
  process.stdout.write(`${entry}: ${sizes.join(', ')}\n`)
}
