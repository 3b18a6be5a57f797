/**
 * A slice of the fuzzer: for every reader of foreign bytes and texts its corpus, the inputs that once
 * showed a defect, and some hundreds more (thousands in a full run), the same in every run. And the fuzzer itself.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { describe, it } from 'node:test'
import { corpusFile, corpusOf, inputOf, lineOf } from '../../dev/evidence/fuzz/corpus.ts'
import { Fuzzer } from '../../dev/evidence/fuzz/engine.ts'
import { judge, type Limits } from '../../dev/evidence/fuzz/judge.ts'
import type { Form, Target } from '../../dev/evidence/fuzz/target.ts'
import { TARGETS } from '../../dev/evidence/fuzz/targets/all.ts'
import { netlinkFormat, PROTOBUF_FORMAT } from '../../dev/evidence/fuzz/trees.ts'
import { CodedError } from '../../src/values/errors.ts'
import { amountOfRun } from '../support/extent.ts'

const DEFAULT_SLICE = 1000

describe('every reader of foreign bytes and texts', () => {
  for (const target of TARGETS)
    it(`answers or refuses every input: ${target.name}`, async () => {
      const corpus = corpusOf(target)
      assert.ok(corpus.length > 0, 'it has a corpus')
      const fuzzer = new Fuzzer(target, corpus, 1)
      await fuzzer.tryCorpus()
      const inputs = target.slice ?? DEFAULT_SLICE
      await fuzzer.run({ inputs: amountOfRun(inputs, Math.ceil(inputs / 4)) })
      assert.deepEqual(
        Array.from(fuzzer.failures.values(), ({ text, input }) => `${text} ${lineOf(input).slice(0, 500)}`),
        [],
      )
    })

  it('has a target, and no file of another one is in the corpus', () => {
    const names = new Set(TARGETS.map(({ name }) => `${name}.txt`))
    assert.equal(names.size, TARGETS.length)
    for (const folder of ['corpus', 'found'] as const) {
      const path = corpusFile({ name: 'x' }, folder).replace(/x\.txt$/, '')
      for (const name of existsSync(path) ? readdirSync(path) : []) assert.ok(names.has(name), `${folder}/${name}`)
    }
  })
})

const LIMITS: Limits = { milliseconds: 30, microsecondsPerByte: 1, heapBytes: 32 << 20 }

describe('the fuzzer', () => {
  const seeds = ['{"a":[1,{"b":"c"}]}']
  const target = (form: Form, run: Target['run']): Target => ({ name: 'x', what: 'y', form, run, seeds: () => seeds })
  const inputs = (form: Form, seed: number): string[] => {
    const fuzzer = new Fuzzer(
      target(form, () => undefined),
      corpusOf(target(form, () => undefined)),
      seed,
    )
    return Array.from({ length: 300 }, () => lineOf(fuzzer.next()))
  }

  it('makes the same inputs of the same seed, and others of another one', () => {
    for (const form of ['json', 'text', 'bytes'] as const) {
      assert.deepEqual(inputs(form, 1), inputs(form, 1))
      assert.notDeepEqual(inputs(form, 1), inputs(form, 2))
      assert.ok(new Set(inputs(form, 1)).size > 200, form)
    }
  })

  it('finds errors of another kind, slow and greedy inputs, and new members of all objects', async () => {
    const found = async (run: Target['run'], limits = LIMITS): Promise<string | undefined> =>
      (await judge(target('bytes', run), Uint8Array.of(1), limits))?.kind
    const busy = (): void => {
      const before = process.threadCpuUsage()
      for (let used = 0; used < 60_000; )
        used = process.threadCpuUsage(before).user + process.threadCpuUsage(before).system
    }
    let kept: unknown[] = []
    const greedy = (): void => {
      kept = Array.from({ length: 6 }, () => Array.from({ length: 1 << 20 }, (_, index) => index / 2))
    }
    assert.equal(await found(() => undefined), undefined)
    assert.equal(await found(() => assert.ok([].at(1))), 'error')
    assert.equal(await found(() => Promise.reject(new CodedError('a', 'b'))), 'error')
    assert.equal(await found(busy), 'time')
    assert.equal(await found(greedy, { ...LIMITS, milliseconds: 10_000 }), 'memory')
    assert.equal(await found(() => void Object.assign(Object.prototype, { fuzzed: 1 })), 'pollution')
    assert.ok(!('fuzzed' in {}) && kept.length > 0)
  })

  it('keeps one find of a cause, made shorter', async () => {
    const fuzzer = new Fuzzer(
      target('text', (input) => {
        if (Buffer.from(input).includes('b')) throw new TypeError('no')
      }),
      [new Uint8Array(Buffer.from('aaaaaaaaaaaaabaaaaaaaaaaaa'))],
      1,
    )
    await fuzzer.tryCorpus()
    await fuzzer.run({ inputs: 100 })
    assert.deepEqual(
      Array.from(fuzzer.failures.values(), ({ input }) => Buffer.from(input).toString()),
      ['b'],
    )
  })

  it('writes trees as they were read', () => {
    for (const { name, form, headerBytes = 0 } of TARGETS) {
      const format = form === 'netlink' ? netlinkFormat(headerBytes) : form === 'protobuf' ? PROTOBUF_FORMAT : undefined
      const given = TARGETS.find((one) => one.name === name)
      if (format === undefined || given === undefined) continue
      let same = 0
      const corpus = corpusOf(given)
      for (const input of corpus) {
        const tree = format.read(input)
        if (tree === undefined) continue
        const written = format.write(tree)
        if (Buffer.from(written).equals(input)) same++
        // What lacked its padding, or had a number in a longer form, is written in one way.
        const again = format.read(written)
        assert.deepEqual(again && format.write(again), written, name)
      }
      assert.ok(same > 0, `${name}: none of ${corpus.length}`)
    }
  })

  it('reads the lines of a corpus as they were written', () => {
    for (const input of [Uint8Array.of(), Uint8Array.of(0, 255, 10), new Uint8Array(Buffer.from('a\n"ü"\\'))])
      assert.deepEqual(inputOf(lineOf(input)), input)
  })
})
