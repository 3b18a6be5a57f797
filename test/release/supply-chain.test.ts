/** The parts of the evidence for the supply chain that judge: each finds what is wrong. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { lockedPackages } from '../../dev/evidence/supply-chain/built.ts'
import { debianLicences, npmLicences } from '../../dev/evidence/supply-chain/licences.ts'
import { npmAnswer } from '../../dev/evidence/supply-chain/npm-answer.ts'
import { differencesOf } from '../../dev/evidence/supply-chain/reproducible.ts'
import { readReview } from '../../dev/release/vulnerabilities.ts'

describe('npmLicences', () => {
  it('allows those of all packages in the program', () => {
    const inProgram = new Set(readReview().packages)
    const packages = [...lockedPackages().values()].filter(({ name, version }) => inProgram.has(`${name}@${version}`))
    assert.equal(packages.length, inProgram.size)
    assert.deepEqual(npmLicences(packages).problems, [])
  })

  it('refuses others, and none', () => {
    const { all, problems } = npmLicences([
      { name: 'a', version: '1.0.0', license: 'MIT' },
      { name: 'b', version: '1.0.0', license: 'AGPL-3.0' },
      { name: 'c', version: '1.0.0' },
    ])
    assert.equal(all.length, 3)
    assert.deepEqual(
      problems.map((text) => text.split(';')[0]),
      ['b has the licence AGPL-3.0', 'c has the licence none'],
    )
  })
})

describe('debianLicences', () => {
  it('lists the names of both forms, and refuses what is not of main and what names no licence', (t) => {
    const root = mkdtempSync(join(tmpdir(), 'kube-ipvs-licences-'))
    t.after(() => rmSync(root, { recursive: true }))
    const add = (name: string, section: string, copyright: string): void => {
      for (const [path, text] of [
        [`var/lib/dpkg/status.d/${name}`, `Package: ${name}\nSection: ${section}\nVersion: 1-2\n`],
        [`usr/share/doc/${name}/copyright`, copyright],
      ] as const) {
        mkdirSync(dirname(join(root, path)), { recursive: true })
        writeFileSync(join(root, path), text)
      }
    }
    add('a', 'net', 'Files: *\nLicense: GPL-2+\n text\n\nLicense: ISC\n')
    add('b', 'libs', 'see /usr/share/common-licenses/GPL-3.\n')
    add('c', 'non-free/net', 'License: custom\n')
    add('d', 'libs', 'all rights reserved\n')
    assert.deepEqual(debianLicences(root), {
      all: [
        { name: 'a', version: '1-2', licences: ['GPL-2+', 'ISC'] },
        { name: 'b', version: '1-2', licences: ['GPL-3'] },
        { name: 'c', version: '1-2', licences: ['custom'] },
        { name: 'd', version: '1-2', licences: [] },
      ],
      problems: [`c is of Debian's section "non-free/net"`, 'the copyright file of d names no licence'],
    })
  })
})

describe('npmAnswer', () => {
  const answer = (report: object, code = 0) => npmAnswer({ code, output: `npm warn x\n${JSON.stringify(report)}\n` })

  it('tells what npm audit has found, and that it has found nothing', () => {
    assert.deepEqual(answer({ vulnerabilities: {} }), { result: 'none', problems: [] })
    const via = ['other', { url: 'https://github.com/advisories/GHSA-x' }]
    assert.deepEqual(answer({ vulnerabilities: { yaml: { severity: 'high', via } } }, 1), {
      result: 'found',
      problems: ['yaml has a vulnerability (high) https://github.com/advisories/GHSA-x'],
    })
  })

  it('tells which signatures are wrong or missing', () => {
    assert.deepEqual(answer({ invalid: [], missing: [] }), { result: 'none', problems: [] })
    const [a, b] = ['a', 'b'].map((name) => ({ name, version: '1.0.0' }))
    assert.deepEqual(answer({ invalid: [a], missing: [b] }, 1).problems, [
      'the signature of a@1.0.0 is wrong',
      'b@1.0.0 has no signature, and its registry signs',
    ])
  })

  it('says why npm could not ask, and takes no silence for an answer', () => {
    const refused = { message: '405 Method Not Allowed', error: { summary: '', detail: '' } }
    assert.deepEqual(answer(refused, 1), { result: 'unasked', reason: '405 Method Not Allowed', problems: [] })
    const text = 'npm error code ENOTFOUND\nnpm error network\n'
    assert.equal(npmAnswer({ code: 1, output: text }).reason, 'npm error code ENOTFOUND')
    assert.deepEqual(npmAnswer({ code: 0, output: '' }), {
      result: 'unasked',
      reason: 'npm ended with 0',
      problems: [],
    })
    assert.equal(npmAnswer({ code: 1, output: '{ broken }' }).result, 'unasked')
  })
})

describe('differencesOf', () => {
  it('names files that differ, and those that one build lacks', () => {
    assert.deepEqual(
      differencesOf([
        { a: '1', b: '2', c: '3' },
        { a: '1', b: '0' },
      ]),
      ['b', 'c'],
    )
    assert.deepEqual(differencesOf([{ a: '1' }, { a: '1' }]), [])
  })
})
