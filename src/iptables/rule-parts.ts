/**
 * The parser of rules as iptables-save prints them: the words of a rule, its options, and its
 * parts, which are matches and a target.
 */

/** The words of a rule without quotes. A quote without an end reaches to the end of the text. */
function wordsOf(rule: string): string[] {
  const words: string[] = []
  let word = ''
  let started = false
  let quoted = false
  for (let at = 0; at < rule.length; at++) {
    const letter = rule.charAt(at)
    if (quoted && letter === '\\') word += rule.charAt(++at)
    else if (letter === '"') {
      quoted = !quoted
      started = true
    } else if (!quoted && (letter === ' ' || letter === '\t')) {
      if (started) words.push(word)
      word = ''
      started = false
    } else {
      word += letter
      started = true
    }
  }
  if (started) words.push(word)
  return words
}

/** An option with its values, `! --src-type LOCAL`. */
export interface RuleOption {
  readonly negated: boolean
  readonly name: string
  readonly values: readonly string[]
}

/** The options of a rule in order: its matches after each `-m`, and those of its target after `-j` or `-g`. */
export function ruleOptions(rule: string): RuleOption[] {
  const words = wordsOf(rule)
  const options: RuleOption[] = []
  for (let at = 0; at < words.length; ) {
    const negated = words[at] === '!'
    const name = words[negated ? at + 1 : at] ?? ''
    const first = negated ? at + 2 : at + 1
    let end = first
    // A comment is one word, also one that begins with `-`.
    if (name === '--comment') end++
    else while (end < words.length && words[end] !== '!' && words[end]?.startsWith('-') === false) end++
    options.push({ negated, name, values: words.slice(first, end) })
    at = end
  }
  return options
}

/** The first value of each option of a rule by its name, with a `!` before the name of one that is negated. */
export function optionValues(rule: string): ReadonlyMap<string, string> {
  return new Map(
    ruleOptions(rule).map(({ negated, name, values }) => [`${negated ? '!' : ''}${name}`, values[0] ?? '']),
  )
}

/**
 * A match: the options after `-m NAME`, or those before all of them (`-s`, `-d`, `-i`, `-o`, `-p`),
 * whose name is ''.
 */
export interface RuleMatch {
  readonly name: string
  readonly options: readonly RuleOption[]
}

export interface RuleTarget {
  /** `MARK`, or a chain. */
  readonly name: string
  /** -g: what follows in this chain is left out when the other chain returns. */
  readonly isGoto: boolean
  readonly options: readonly RuleOption[]
}

export interface RuleParts {
  readonly matches: readonly RuleMatch[]
  /** undefined: the rule only counts. */
  readonly target: RuleTarget | undefined
}

export function partsOf(rule: string): RuleParts {
  const head: RuleOption[] = []
  const matches: { name: string; options: RuleOption[] }[] = [{ name: '', options: head }]
  let target: { name: string; isGoto: boolean; options: RuleOption[] } | undefined
  let group = head
  for (const option of ruleOptions(rule)) {
    const [value = ''] = option.values
    if (option.name === '-m' && target === undefined) matches.push({ name: value, options: (group = []) })
    else if (option.name === '-j' || option.name === '-g')
      target = { name: value, isGoto: option.name === '-g', options: (group = []) }
    else group.push(option)
  }
  return { matches: head.length === 0 ? matches.slice(1) : matches, target }
}

/** Targets after which a packet goes on as before, at least as far as its path is concerned. */
export const TARGETS_WITHOUT_EFFECT: ReadonlySet<string> = new Set(
  (
    'AUDIT CHECKSUM CLASSIFY CONNSECMARK DSCP ECN HL HMARK IDLETIMER LED LOG NFLOG RATEEST SECMARK SET ' +
    'TCPMSS TCPOPTSTRIP TEE TOS TRACE TTL ULOG'
  ).split(' '),
)
