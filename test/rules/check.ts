/**
 * The checks behind the rule tests: from source files as texts to violations as sentences. Imports
 * are found by their form: one statement starts each line, as the formatter writes them.
 */
import { posix } from 'node:path'
import {
  COMPOSITION,
  DIRECTION,
  ENTRIES,
  FORBIDDEN,
  IMPURE,
  MAX_LINES,
  MAY_IMPORT,
  PACKAGE_USERS,
  PRINTERS,
  PURE_BUILTINS,
  PURE_ROOMS,
  SYNCHRONOUS,
  TOOLS,
} from './rules.ts'

/** Path in the repository to text. */
export type Sources = ReadonlyMap<string, string>

const COMMENT = /\/\*[^]*?\*\/|\/\/[^\n]*/
const TEXT = /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`/
const COMMENT_OR_TEXT = new RegExp(`${COMMENT.source}|${TEXT.source}`, 'g')
const FROM = /^(?:import|export)\s+(type\s+)?(?:[\w$*{][^'"`;=]*?)\sfrom\s+['"]([^'"]+)['"]\n?/gm
const OTHER_IMPORT = /(?:^import|\bimport\(|\brequire\(|\bcreateRequire\([^)]*\)\()\s*['"]([^'"]+)['"]/gm

function withoutComments(text: string): string {
  return text.replace(COMMENT_OR_TEXT, (match) => (/^\/[*/]/.test(match) ? ' ' : match))
}

/** The code without comments and the contents of texts. */
export function codeOf(text: string): string {
  return text.replace(COMMENT_OR_TEXT, (match) => (/^\/[*/]/.test(match) ? ' ' : "''"))
}

/** What a file imports or re-exports: package names, `node:…`, and paths in the repository. */
export function importsOf(path: string, text: string): string[] {
  return specifiersOf(text).map(({ name }) => resolved(path, name))
}

/** What of it is loaded when the file runs, which an import of types is not. */
export function loadsOf(path: string, text: string): string[] {
  return specifiersOf(text).flatMap(({ name, isType }) => (isType ? [] : [resolved(path, name)]))
}

function specifiersOf(text: string): { readonly name: string; readonly isType: boolean }[] {
  const code = withoutComments(text)
  return [
    ...[...code.matchAll(FROM)].map(([, type, name = '']) => ({ name, isType: type !== undefined })),
    ...[...code.matchAll(OTHER_IMPORT)].map(([, name = '']) => ({ name, isType: false })),
  ]
}

const resolved = (path: string, name: string): string =>
  name.startsWith('.') ? posix.join(posix.dirname(path), name) : packageName(name)

function packageName(specifier: string): string {
  if (specifier.startsWith('node:')) return specifier
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
}

const isIn = (path: string, place: string): boolean =>
  place.endsWith('/*') ? posix.dirname(path) === place.slice(0, -2) : path === place || path.startsWith(`${place}/`)
const isPath = (name: string): boolean => /^(src|native|test|dev)\//.test(name)
const isInOneOf = (path: string, places: readonly string[]): boolean => places.some((place) => isIn(path, place))

/** Whether the first comment of a file ends with `@impure`. */
const saysImpure = (text: string): boolean => /^\/\*\*(?:(?!\*\/)[^])*@impure\s*\*\//.test(text)

function isPure(path: string, text: string): boolean {
  if (isInOneOf(path, PURE_ROOMS)) return true
  return !isInOneOf(path, COMPOSITION) && !saysImpure(text)
}

function ruleFor(path: string): string | undefined {
  const names = Object.keys(MAY_IMPORT).filter((name) => isIn(path, name))
  return names.toSorted((left, right) => right.length - left.length)[0]
}

/** Imports that the table does not allow. */
export function checkImports(sources: Sources): string[] {
  const violations: string[] = []
  for (const [path, text] of sources) {
    const home = ruleFor(path)
    if (home === undefined) violations.push(`${path}: its folder has no line in MAY_IMPORT`)
    for (const name of importsOf(path, text)) {
      if (isPath(name)) {
        if (!sources.has(name)) violations.push(`${path}: imports ${name}, which does not exist`)
        const allowed = home === undefined ? [] : (MAY_IMPORT[home] ?? [])
        if (home !== undefined && ruleFor(name) !== home && !allowed.some((place) => isIn(name, place)))
          violations.push(`${path}: may not import ${name}`)
        continue
      }
      const users = Object.hasOwn(PACKAGE_USERS, name) ? PACKAGE_USERS[name] : undefined
      if (users === undefined && !name.startsWith('node:'))
        violations.push(`${path}: ${name} has no line in PACKAGE_USERS`)
      if (users !== undefined && !users.some((place) => isIn(path, place))) {
        violations.push(`${path}: only ${users.join(', ')} may import ${name}`)
      }
    }
  }
  return violations
}

/** The files that may be loaded from an entry on, at once or later, each with the file that imports it. */
export function loadedFrom(entry: string, sources: Sources): ReadonlyMap<string, string> {
  const found = new Map([[entry, '']])
  for (const path of found.keys())
    for (const name of loadsOf(path, sources.get(path) ?? ''))
      if (sources.has(name) && !found.has(name)) found.set(name, path)
  return found
}

/** Tools that the daemon may load, each with the imports that lead to it. */
export function checkApart(sources: Sources): string[] {
  const loaded = loadedFrom(ENTRIES.daemon, sources)
  return [...loaded.keys()].filter(isTool).map((path) => {
    const way = [path]
    for (let from = loaded.get(path); from !== undefined && from !== ''; from = loaded.get(from)) way.unshift(from)
    return `${path}: is for tools, and the daemon loads it: ${way.join(' -> ')}`
  })
}

/** Whether a file is one of the tools, which the daemon never loads. */
export const isTool = (path: string): boolean => isInOneOf(path, TOOLS)

/** Imports against DIRECTION: of tests by tools or by the program, and of tools by the program. */
export function checkDirection(sources: Sources): string[] {
  const placeOf = (path: string): number => DIRECTION.findIndex((roots) => roots.some((root) => isIn(path, root)))
  return [...sources].flatMap(([path, text]) =>
    importsOf(path, text)
      .filter((name) => isPath(name) && placeOf(name) > placeOf(path))
      .map((name) => `${path}: may not import ${name}`),
  )
}

/** Pure files that depend on when or where they run, and files that say `@impure` without a reason. */
export function checkPurity(sources: Sources): string[] {
  return [...sources].flatMap(([path, text]) => {
    const reasons = impurities(path, text, sources)
    if (isPure(path, text)) {
      if (saysImpure(text)) return [`${path}: says @impure in a room where every file is pure`]
      return reasons.map(
        (reason) => `${path}: is pure and ${reason} (a file that must do so ends its first comment with @impure)`,
      )
    }
    return saysImpure(text) && reasons.length === 0 ? [`${path}: says @impure and is pure`] : []
  })
}

/** Why a file is not pure: what it uses and what it imports. */
function impurities(path: string, text: string, sources: Sources): string[] {
  const code = codeOf(text)
  const used = Object.entries(IMPURE).flatMap(([what, pattern]) => (pattern.test(code) ? [`uses ${what}`] : []))
  const imported = importsOf(path, text).filter((name) =>
    isPath(name)
      ? sources.has(name) && !isPure(name, sources.get(name) ?? '')
      : name.startsWith('node:') && !PURE_BUILTINS.includes(name),
  )
  return [...used, ...imported.map((name) => `imports ${name}`)]
}

/** Files that import each other in a circle, each circle once, from its first file in order. */
export function findCycles(sources: Sources): string[] {
  const cycles: string[] = []
  const done = new Set<string>()
  const visit = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path)
    if (start >= 0) {
      cycles.push(`cycle: ${[...trail.slice(start), path].join(' -> ')}`)
      return
    }
    if (done.has(path)) return
    for (const name of importsOf(path, sources.get(path) ?? '')) if (sources.has(name)) visit(name, [...trail, path])
    done.add(path)
  }
  for (const path of sources.keys()) visit(path, [])
  return cycles
}

/** Files that do nothing but pass on what other files export. */
export function findBarrels(sources: Sources): string[] {
  return [...sources].flatMap(([path, text]) => {
    const code = withoutComments(text)
    const rest = code.replace(FROM, '').trim()
    return rest === '' && /^export\s/m.test(code) ? [`${path}: only re-exports; import from where things are`] : []
  })
}

/** Ways to print that go around the places which escape what they print. */
export function checkPrinting(sources: Sources): string[] {
  return [...sources].flatMap(([path, text]) => {
    const code = codeOf(text)
    return PRINTERS.filter(
      ({ pattern, rooms, places }) => isInOneOf(path, rooms) && !places.includes(path) && pattern.test(code),
    ).map(({ what }) => `${path}: prints by itself, with ${what}`)
  })
}

/** Synchronous calls about files that an operator names. */
export function checkSynchronous(sources: Sources): string[] {
  const { pattern, rooms, places } = SYNCHRONOUS
  return [...sources].flatMap(([path, text]) =>
    isInOneOf(path, rooms) && !places.includes(path) && pattern.test(codeOf(text))
      ? [`${path}: waits for a file with a synchronous call`]
      : [],
  )
}

/** Rules about one file at a time: its first comment, its length, and what no file may contain. */
export function checkFile(path: string, text: string): string[] {
  const lines = text.trimEnd().split('\n').length
  return [
    ...(/^\/\*\*[^]*?\*\/\n/.test(text) ? [] : [`${path}: does not start with a comment that says what it is for`]),
    ...(lines <= MAX_LINES ? [] : [`${path}: ${lines} lines, more than ${MAX_LINES}`]),
    ...Object.entries(FORBIDDEN).flatMap(([what, pattern]) => {
      const searched = what.startsWith('@') ? text : codeOf(text)
      return pattern.test(searched) ? [`${path}: uses ${what}`] : []
    }),
    ...checkTables(path, text),
  ]
}

const TABLE = /^(?:export )?const (\w+): (?:Readonly<)?Record<string, /gm

/**
 * Tables by name that are asked with brackets, which finds `constructor` and `toString` in each. A
 * single letter is no such name.
 */
function checkTables(path: string, text: string): string[] {
  const code = codeOf(text)
  return [...code.matchAll(TABLE)].flatMap(([, name = '']) =>
    new RegExp(`\\b${name}\\[(?!letter\\])`).test(code) ? [`${path}: asks the table ${name} without ownMember`] : [],
  )
}
