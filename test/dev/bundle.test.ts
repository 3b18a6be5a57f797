/** The bundle as an image holds it: it runs without the repository around it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { bundle, copyNative } from '../../dev/bundle.ts'
import { NODE_FLAGS } from '../../dev/node-flags.ts'

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-bundle-'))
let entry = ''
before(async () => {
  ;({ entry } = await bundle({ directory: join(folder, 'dist') }))
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
    const program = join(folder, 'dist/program.js')
    assert.equal(nodeSays('-e', ASK_V8, program), 'false\n')
    assert.equal(nodeSays('--no-turbofan', '-e', ASK_V8, program), 'true\n')
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
    assert.equal(existsSync(join(directory, 'program.js.cache')), false)
    assert.equal(nodeSays(other.entry, '--version'), version)
    writeFileSync(join(directory, 'program.js.cache'), 'damaged')
    assert.equal(nodeSays(other.entry, '--version'), version)
  })

  it('is the same at every build', async () => {
    const again = await bundle({ directory: join(folder, 'again') })
    for (const file of ['program.js', 'program.js.cache', 'program.js.lines'])
      assert.ok(readFileSync(join(dirname(again.entry), file)).equals(readFileSync(join(dirname(entry), file))), file)
  })
})

describe('bundle', () => {
  it('loads koffi and its binary when they are copied next to it, and names what is missing otherwise', () => {
    assert.match(status(), /koffi cannot be loaded/)
    copyNative(join(folder, 'dist'))
    assert.doesNotMatch(status(), /koffi|native/i)
  })

  it('refuses an architecture whose binary npm did not install', () => {
    assert.throws(() => copyNative(folder, 'sparc'), /@koromix\/koffi-linux-sparc is not installed/)
  })
})
