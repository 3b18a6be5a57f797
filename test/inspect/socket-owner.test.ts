/** A socket that another user has made, or could have made, is not taken for that of the daemon. */
import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { folderDoubt, socketDoubt } from '../../src/inspect/socket-owner.ts'

const ROOT = 0
const STRANGER = 4711
const own = process.getuid?.() ?? STRANGER

/** A folder with a file in the place of a socket, both of a user who is not root: root gives them away. */
function folderOf(t: TestContext): { readonly folder: string; readonly path: string; readonly user: number } {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-owner-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'run', 'kube-ipvs.sock')
  mkdirSync(join(folder, 'run'), { mode: 0o700 })
  writeFileSync(path, '')
  const user = own === ROOT ? STRANGER : own
  if (own === ROOT) for (const one of [path, join(folder, 'run')]) chownSync(one, STRANGER, STRANGER)
  return { folder: join(folder, 'run'), path, user }
}

test('a folder of root or of the user who looks is trusted, unless others may write there', async (t) => {
  const { folder, user } = folderOf(t)
  assert.equal(await folderDoubt(folder, user), undefined)
  assert.match((await folderDoubt(folder, user + 1)) ?? '', /^the folder ".*\/run" belongs to the user \d+$/)
  assert.equal(await folderDoubt('/', user + 1), undefined)
  chmodSync(folder, 0o777)
  assert.match((await folderDoubt(folder, user)) ?? '', /^other users may write to the folder/)
  chmodSync(folder, 0o1777)
  assert.equal(await folderDoubt(folder, user), undefined)
  await assert.rejects(folderDoubt(join(folder, 'none')), { code: 'ENOENT' })
})

test('a socket of another user in a folder for all is not trusted, and none is nothing to doubt', async (t) => {
  const { folder, path, user } = folderOf(t)
  assert.equal(await socketDoubt(path, user), undefined)
  assert.match((await socketDoubt(path, user + 1)) ?? '', /^the folder/)
  assert.equal(await socketDoubt(join(folder, 'none'), user), undefined)
  assert.equal(await socketDoubt(join(folder, 'none', 'none'), user), undefined)
  const shared = mkdtempSync(join(tmpdir(), 'kube-ipvs-owner-'))
  t.after(() => rmSync(shared, { recursive: true }))
  const squatted = join(shared, 'kube-ipvs.sock')
  writeFileSync(squatted, '')
  chmodSync(shared, 0o1777)
  if (own !== ROOT) return
  chownSync(squatted, STRANGER, STRANGER)
  assert.equal(await socketDoubt(squatted, ROOT), `the socket "${squatted}" belongs to the user ${STRANGER}`)
  assert.equal(await socketDoubt(squatted, STRANGER), undefined)
})
