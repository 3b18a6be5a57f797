/**
 * Every text that a template puts into a manifest is quoted: a name such as `1e3`, `null` or `1:30`
 * is a text there too.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, it, test } from 'node:test'
import { CHART, helm, LEAST, needsHelm, type HelmResult } from './helm.ts'
import { problemsOf, RELEASES } from './openapi.ts'
import { objectsIn } from './renderings.ts'

/** What is no text: numbers, and lists and mappings as JSON. */
const NO_TEXT = [/ \| toJson$/, /^\$(?:health|metrics)$/, /^\.Values\.terminationGracePeriodSeconds$/]

test('every scalar of a template is quoted, or no text', () => {
  const files = globSync(join(CHART, 'templates/**/*.{yaml,tpl}'))
  let count = 0
  for (const file of files)
    for (const [index, line] of readFileSync(file, 'utf8').split('\n').entries()) {
      // A comment and a list on one line hold nothing that is not quoted either.
      const [, value] = /^\s*(?:- )*(?:[\w./-]+: |- )\[?(.*\{\{.*?)\]?$/.exec(line) ?? []
      if (value === undefined) continue
      const place = `${basename(file)}:${index + 1}: ${line.trim()}`
      const [, action] = /^\{\{ (.*) \}\}$/.exec(value) ?? []
      assert.ok(action !== undefined, place)
      if (!NO_TEXT.some((pattern) => pattern.test(action))) assert.match(action, / \| quote$/, place)
      count++
    }
  assert.ok(count > 40, `${count}`)
})

describe('texts that YAML would read as something else', needsHelm, () => {
  const template = (release: string, values: object): HelmResult =>
    helm(['template', release, CHART, '--namespace', '1e3', '--kube-version', '1.36.0'], { ...LEAST, ...values })

  it('are names and labels', () => {
    const everywhere = {
      podMonitor: { enabled: true, job: 'a"b\\c: d #e\nf', interval: '30s' },
      prometheusRule: { enabled: true },
      dashboard: { enabled: true },
      config: { metricsBindAddress: '0.0.0.0:10249' },
    }
    for (const name of ['1e3', 'null', 'true', '0x1f', '12345']) {
      const { output, error } = template('1e3', {
        ...everywhere,
        nameOverride: name,
        fullnameOverride: name,
        serviceAccount: { name },
        priorityClassName: name,
        image: { repository: '1', tag: '30' },
      })
      assert.equal(error, '')
      const objects = objectsIn(output)
      assert.ok(objects.length >= 9)
      for (const object of objects) {
        if (object.apiVersion.startsWith('monitoring.')) assert.equal(object.metadata.name, name)
        else for (const release of RELEASES) assert.deepEqual(problemsOf(object, release), [], object.kind)
        for (const [key, label] of Object.entries(object.metadata.labels ?? {}))
          assert.equal(typeof label, 'string', key)
      }
      const text = JSON.stringify(objects)
      assert.ok(text.includes('"image":"1:30"'))
      const rule = objects.find(({ kind }) => kind === 'PrometheusRule')
      assert.ok(JSON.stringify(rule).includes(JSON.stringify('{job="a\\"b\\\\c: d #e\\nf"}').slice(1, -1)))
    }
  })
})
