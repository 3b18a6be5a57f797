/** The bundle as an image holds it: it runs without the repository around it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Bundle, bundle, BUNDLE_NAMES, copyNative } from '../../dev/bundle.ts'
import { NODE_FLAGS } from '../../dev/node-flags.ts'
import { isTool } from '../rules/check.ts'

/** In bytes; a little more than there are. */
const MAX_BYTES = { main: 50_000, daemon: 1_497_000 } as const

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-bundle-'))
let made: Bundle
let entry = ''
before(async () => {
  made = await bundle({ directory: join(folder, 'dist') })
  ;({ entry } = made)
})
after(() => rmSync(folder, { recursive: true }))

/** What `status` says: it opens netlink sockets before anything else. */
const status = (): string => {
  const { stdout, stderr } = spawnSync(process.execPath, [entry, 'status'], { encoding: 'utf8', cwd: folder })
  return stdout + stderr
}

/** What node prints with the flags of the image. */
const nodeSays = (...words: readonly string[]): string => {
  const { stdout, stderr } = spawnSync(process.execPath, [...NODE_FLAGS, ...words], { encoding: 'utf8', cwd: folder })
  return stdout + stderr
}

/** Whether V8 refuses the code cache of a program. */
const ASK_V8 = `
const [program] = process.argv.slice(1)
const [source, cachedData] = [fs.readFileSync(program, 'latin1'), fs.readFileSync(program + '.cache')]
console.log(new vm.Script(source, { cachedData }).cachedDataRejected)`

/** Which of Node's own modules were compiled because V8 refused Node's code cache. */
const ASK_NODE = `
const { internalBinding } = require('internal/test/binding')
require('node:https')
const { compiledWithCache, compiledWithoutCache } = internalBinding('builtins').getCacheUsage()
console.log(JSON.stringify([compiledWithCache.length ?? compiledWithCache.size, [...compiledWithoutCache]]))`

describe('the code cache', () => {
  it('is accepted by node with the flags of the image', () => {
    for (const name of BUNDLE_NAMES) {
      const program = join(folder, `dist/${name}.js`)
      assert.equal(nodeSays('-e', ASK_V8, program), 'false\n', name)
      assert.equal(nodeSays('--no-turbofan', '-e', ASK_V8, program), 'true\n', name)
    }
  })

  it("of Node's own modules is accepted with the flags of the image", () => {
    const ask = ['--expose-internals', '--no-warnings', '-e', ASK_NODE]
    const [cached, compiled] = JSON.parse(nodeSays(...ask)) as [number, string[]] // printed by ASK_NODE
    assert.ok(cached > 20, `${cached} modules from the cache`)
    assert.deepEqual(compiled, [])
  })

  it('is not needed: the program runs without one, with a damaged one, and in a node that refuses it', async () => {
    const version = nodeSays(entry, '--version')
    assert.match(version, /^kube-ipvs v\d.* \(kube-proxy v1\.\d+\.\d+\)$/m)
    assert.equal(nodeSays('--no-turbofan', entry, '--version'), version)
    const directory = join(folder, 'without')
    const other = await bundle({ directory, arch: 'sparc' })
    for (const name of BUNDLE_NAMES) assert.equal(existsSync(join(directory, `${name}.js.cache`)), false)
    assert.equal(nodeSays(other.entry, '--version'), version)
    for (const name of BUNDLE_NAMES) writeFileSync(join(directory, `${name}.js.cache`), 'damaged')
    assert.equal(nodeSays(other.entry, '--version'), version)
  })

  it('is the same at every build', async () => {
    const again = await bundle({ directory: join(folder, 'again') })
    for (const file of BUNDLE_NAMES.flatMap((name) => [`${name}.js`, `${name}.js.cache`, `${name}.js.lines`]))
      assert.ok(readFileSync(join(dirname(again.entry), file)).equals(readFileSync(join(dirname(entry), file))), file)
  })
})

describe('bundle', () => {
  it('of the daemon has nothing of the tools, and is smaller than one of everything would be', (t) => {
    const { bytes, inputs } = made
    t.diagnostic(BUNDLE_NAMES.map((name) => `${name}.js ${bytes[name]} bytes`).join(', '))
    assert.ok(inputs.daemon.includes('src/daemon/local-answers.ts'))
    assert.deepEqual(inputs.daemon.filter(isTool), [])
    assert.deepEqual(inputs.main.filter(isTool), [])
    assert.ok(inputs.tools.some(isTool))
    // The command line needs no library.
    assert.deepEqual(
      inputs.main.filter((path) => path.includes('node_modules')),
      [],
    )
    for (const name of ['daemon', 'main'] as const)
      assert.ok(bytes[name] <= MAX_BYTES[name], `${name}.js has ${bytes[name]} bytes, more than ${MAX_BYTES[name]}`)
  })

  it('of the daemon runs the daemon, and that of the tools everything else', () => {
    const without = (name: 'daemon' | 'tools', ...words: readonly string[]): string => {
      const directory = join(folder, `without-${name}`)
      cpSync(join(folder, 'dist'), directory, { recursive: true })
      rmSync(join(directory, `${name}.js`))
      return nodeSays(join(directory, 'kube-ipvs.cjs'), ...words)
    }
    // It ends before it opens anything: no such file.
    const daemon = ['--config', join(folder, 'absent')]
    assert.match(without('tools', ...daemon), /no such file or directory/)
    assert.match(without('tools', '--help'), /ENOENT.*tools\.js/)
    assert.match(without('daemon', ...daemon), /ENOENT.*daemon\.js/)
    for (const words of [['--help'], ['--version'], ['help', 'status'], ['completion', 'bash']])
      assert.doesNotMatch(without('daemon', ...words), /ENOENT/, words.join(' '))
    assert.match(without('daemon', '--wrong'), /^Error: unknown flag: --wrong$/m)
  })

  it('loads koffi and its binary when they are copied next to it, and names what is missing otherwise', () => {
    assert.match(status(), /koffi cannot be loaded/)
    copyNative(join(folder, 'dist'))
    assert.doesNotMatch(status(), /koffi|native/i)
  })

  it('refuses an architecture whose binary npm did not install', () => {
    assert.throws(() => copyNative(folder, 'sparc'), /@koromix\/koffi-linux-sparc is not installed/)
  })
})
