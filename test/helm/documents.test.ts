/**
 * What the documents say about the chart: their values render, and the names in their commands are
 * those of the rendered objects.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { parseAllDocuments } from 'yaml'
import { needsHelm, render } from './helm.ts'
import { valuesIn } from './renderings.ts'

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

describe('the values in the documents', needsHelm, () => {
  for (const page of ['README.md', 'docs/quick-start.md'])
    it(`of ${page} render`, () => {
      const all = valuesIn(page)
      assert.equal(all.length, 1)
      for (const values of all) assert.equal(render(values).error, '')
    })
})

describe('the commands in the documents', needsHelm, () => {
  const [values = {}] = valuesIn('docs/quick-start.md')
  const rendered = (...more: readonly string[]): Record<string, unknown>[] => {
    const { output, error } = render(values, ...more)
    assert.equal(error, '')
    return parseAllDocuments(output).map((document) => document.toJS())
  }

  it('name the DaemonSet, its program and its configuration as the chart does', () => {
    const daemonSet = rendered().find(({ kind }) => kind === 'DaemonSet')
    const text = JSON.stringify(daemonSet)
    assert.match(text, /"metadata":\{"name":"kube-ipvs","namespace":"kube-system"/)
    assert.match(text, /"\/usr\/local\/bin\/kube-ipvs","--config=\/var\/lib\/kube-ipvs\/config\.conf"/)
    const page = read('docs/quick-start.md')
    assert.match(page, /exec daemonset\/kube-ipvs -- kube-ipvs diff --config=\/var\/lib\/kube-ipvs\/config\.conf/)
    assert.match(read('docs/troubleshooting.md'), /`\/var\/lib\/kube-ipvs\/config\.conf`/)
  })

  it('bind the DaemonSet to the label of migrated nodes', () => {
    const page = read('docs/migration.md')
    const [, setting = ''] = /--set (nodeSelector\.\S+)/.exec(page) ?? []
    const daemonSet = rendered('--set', setting).find(({ kind }) => kind === 'DaemonSet')
    assert.match(
      JSON.stringify(daemonSet),
      /"nodeSelector":\{"kube-ipvs\/proxy":"kube-ipvs","kubernetes\.io\/os":"linux"\}/,
    )
    assert.match(page, /kubectl label node NODE kube-ipvs\/proxy=kube-ipvs --overwrite/)
  })
})
