/**
 * kube-ipvs of an earlier commit, unpacked from this repository into a folder, with the packages of
 * this checkout.
 */
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { join } from 'node:path'
import { finish, projectFolder, tail, Unmet } from '../../progress.mjs'

/**
 * Path of its program. Rejects with Unmet when this checkout has no such commit, or the commit
 * needs other packages.
 */
export async function olderKubeIpvs(commit: string, folder: string): Promise<string> {
  const into = join(folder, commit)
  mkdirSync(into)
  const archive = join(folder, `${commit}.tar`)
  const { code, output } = await finish('git', ['archive', '-o', archive, commit], { cwd: projectFolder })
  if (code !== 0) throw new Unmet(`this checkout has no commit ${commit}: ${tail(output, 1)}`)
  const unpacked = await finish('tar', ['-xf', archive, '-C', into])
  if (unpacked.code !== 0) throw new Unmet(`tar unpacks no ${commit}: ${tail(unpacked.output, 1)}`)
  if (!isDeepStrictEqual(dependenciesIn(into), dependenciesIn(projectFolder)))
    throw new Unmet(`${commit} needs other npm packages than this checkout`)
  symlinkSync(join(projectFolder, 'node_modules'), join(into, 'node_modules'))
  return join(into, 'bin/kube-ipvs.mjs')
}

const dependenciesIn = (folder: string): unknown =>
  (JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { dependencies: unknown }).dependencies // npm's field
