/** Which helm the tests of the chart use. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { findHelm } from '../../dev/helm/program.ts'
import { projectFolder } from '../../dev/progress.mjs'

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-'))
after(() => rmSync(folder, { recursive: true }))

function program(name: string): string {
  const path = join(folder, name)
  mkdirSync(join(path, '..'), { recursive: true })
  writeFileSync(path, '')
  chmodSync(path, 0o755)
  return path
}

test('findHelm prefers the named helm to that of the cache, and that to the one in PATH', () => {
  const nothing = { KUBE_IPVS_CACHE: join(folder, 'none'), PATH: join(folder, 'none') }
  assert.equal(findHelm(nothing), undefined)
  const inPath = program('path/helm')
  const env = { KUBE_IPVS_CACHE: join(folder, 'cache'), PATH: `/nowhere:${join(folder, 'path')}` }
  assert.equal(findHelm(env), inPath)
  const cached = program('cache/helm-v3.22.0')
  assert.equal(findHelm(env), cached)
  const named = program('named')
  assert.equal(findHelm({ ...env, KUBE_IPVS_HELM: named }), named)
  assert.equal(findHelm({ ...env, KUBE_IPVS_HELM: '' }), cached)
})

test('findHelm refuses a named helm that cannot be run', () => {
  assert.throws(
    () => findHelm({ KUBE_IPVS_HELM: join(folder, 'gone') }),
    /KUBE_IPVS_HELM names no program that can be run: ".*gone"/,
  )
})

test('tests of the chart without helm are unmet, and the need names the command that meets it', () => {
  const text = "import { needsHelm } from './test/helm/helm.ts'; console.log(needsHelm.skip)"
  const skipOf = (env: NodeJS.ProcessEnv): string =>
    execFileSync(process.execPath, ['--input-type=module', '--eval', text], {
      cwd: projectFolder,
      env: { PATH: '/nowhere', ...env },
      encoding: 'utf8',
    }).trim()
  assert.equal(skipOf({ KUBE_IPVS_CACHE: join(folder, 'none') }), 'needs helm, which npm run helm builds')
  assert.equal(skipOf({ KUBE_IPVS_HELM: program('some-helm') }), 'false')
})
