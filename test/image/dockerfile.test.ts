/** The Dockerfile repeats facts of dev/image/contents.ts, because a Dockerfile cannot read them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { labelsOf, RUN_CONFIGURATION, VARIANTS } from '../../dev/image/contents.ts'
import { readPinnedNode } from '../../dev/image/node-binary.ts'
import { LAYERS } from '../../dev/image/assemble.ts'
import { projectFolder } from '../../dev/progress.mjs'
import { VERSION } from '../../src/values/well-known.ts'

const [, lastStage = ''] = readFileSync(join(projectFolder, 'Dockerfile'), 'utf8')
  .replaceAll('\\\n', ' ')
  .split(/^FROM \$\{BASE_IMAGE\}$/m)
/** What follows an instruction of the last stage, once for each time it stands there. */
const all = (instruction: string): readonly string[] =>
  [...lastStage.matchAll(new RegExp(`^${instruction} +(.*)$`, 'gm'))].map((match) => match[1] ?? '')

describe('Dockerfile', () => {
  it('starts a container as the OCI layout does', () => {
    assert.deepEqual(JSON.parse(all('ENTRYPOINT').join('')), RUN_CONFIGURATION.Entrypoint)
    assert.deepEqual(all('ENV'), RUN_CONFIGURATION.Env)
    assert.deepEqual([all('USER'), all('WORKDIR')], [[RUN_CONFIGURATION.User], [RUN_CONFIGURATION.WorkingDir]])
  })

  it('takes over every layer, in their order, and nothing else', () => {
    assert.deepEqual(
      all('COPY'),
      LAYERS.map((layer) => `--from=build /image/${layer}/ /`),
    )
  })

  it('has the same labels, filled from its arguments, and the version of package.json', () => {
    const labels = [
      ...all('LABEL')
        .join(' ')
        .matchAll(/(\S+)="([^"]*)"/g),
    ].map((match) => [match[1], match[2]])
    const facts = { version: '${VERSION}', created: '${CREATED}', revision: '${REVISION}', source: '${SOURCE}' }
    assert.deepEqual(Object.fromEntries(labels), labelsOf(facts))
    assert.ok(all('ARG').includes(`VERSION=${VERSION}`))
  })

  it('builds the full image unless another variant is asked for', () => {
    const text = readFileSync(join(projectFolder, 'Dockerfile'), 'utf8')
    assert.match(text, new RegExp(`^ARG VARIANT=${VARIANTS[0]}$[^]*--variant "\\$\\{VARIANT\\}"`, 'm'))
  })

  it('is built on the release of Node that the image contains', () => {
    const text = readFileSync(join(projectFolder, 'Dockerfile'), 'utf8')
    assert.match(text, new RegExp(`^ARG NODE_IMAGE=docker.io/library/node:${readPinnedNode().version}-`, 'm'))
  })
})
