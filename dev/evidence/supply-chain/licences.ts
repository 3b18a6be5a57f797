/** Licences of what the image contains, and what is not allowed in it. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LockedPackage } from './built.ts'

/**
 * Of npm packages, whose code is in our bundles: what asks for no more than a copy of the licence,
 * which the image has.
 */
const ALLOWED = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT']
const CONTROLS = 'var/lib/dpkg/status.d'

export interface Licence {
  readonly name: string
  readonly version: string
  /** An SPDX expression of an npm package, the short names of a Debian copyright file. */
  readonly licences: readonly string[]
}

export interface Licences {
  readonly all: readonly Licence[]
  /** One sentence each. */
  readonly problems: readonly string[]
}

export function npmLicences(packages: readonly LockedPackage[]): Licences {
  const all = packages.map(({ name, version, license = 'none' }) => ({ name, version, licences: [license] }))
  const problems = all.flatMap(({ name, licences }) =>
    licences
      .filter((licence) => !ALLOWED.includes(licence))
      .map((licence) => `${name} has the licence ${licence}; allowed are ${ALLOWED.join(', ')}`),
  )
  return { all, problems }
}

/**
 * Of the Debian packages in the base of an assembled image. They are unchanged files beside our
 * program, so what Debian calls free is allowed: the sections contrib and non-free are not.
 */
export function debianLicences(root: string): Licences {
  const problems: string[] = []
  const all = readdirSync(join(root, CONTROLS)).map((name) => {
    const control = readFileSync(join(root, CONTROLS, name), 'utf8')
    const field = (key: string): string => new RegExp(`^${key}: (.*)$`, 'm').exec(control)?.[1] ?? ''
    const licences = namesIn(readFileSync(join(root, 'usr/share/doc', name, 'copyright'), 'utf8'))
    const section = field('Section')
    if (section === '' || section.includes('/')) problems.push(`${name} is of Debian's section "${section}"`)
    if (licences.length === 0) problems.push(`the copyright file of ${name} names no licence`)
    return { name, version: field('Version'), licences }
  })
  return { all, problems }
}

/** Of a copyright file in the machine-readable form (DEP 5), or else the common licences that it refers to. */
function namesIn(copyright: string): readonly string[] {
  const short = [...copyright.matchAll(/^License: *(\S.*)$/gm)].map(([, name = '']) => name)
  const common = [...copyright.matchAll(/\/usr\/share\/common-licenses\/([\w.-]*\w)/g)].map(([, name = '']) => name)
  return [...new Set(short.length > 0 ? short : common)].toSorted()
}
