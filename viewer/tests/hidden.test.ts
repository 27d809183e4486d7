import { join } from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { Engine } from '../src/data/engine'
import { cellsOf, hidden } from '../src/data/hidden'
import { allowed, stretches, type Mask } from '../src/data/masks'
import { split } from '../src/data/weights'
import { arrange, ranked } from '../src/ui/headorder'
import { sharpest } from '../src/ui/first'
import type { Opened } from '../src/data/run'
import { folder } from './files'

const HEAD = { part: 'self', layer: 3, head: 2 }
const window: Mask = { kind: 'and', of: [{ kind: 'causal' }, { kind: 'sliding_window', size: 3 }] }

describe('what a query may see, as stretches', () => {
  test.each<[Mask, number, [number, number][]]>([
    [{ kind: 'all' }, 4, [[-Infinity, Infinity]]],
    [{ kind: 'causal' }, 4, [[-Infinity, 5]]],
    [window, 4, [[2, 5]]],
    [{ kind: 'chunked', size: 3, start: 1 }, 5, [[4, 7]]],
    [{ kind: 'or', of: [window, { kind: 'prefix', length: 2 }] }, 4, [[-Infinity, 5]]],
    [{ kind: 'or', of: [window, { kind: 'prefix', length: 2 }] }, 9, [[-Infinity, 2], [7, 10]]], // prettier-ignore
    [{ kind: 'and', of: [{ kind: 'padding', valid: [[1, 3], [5, 9]] }, { kind: 'causal' }] }, 6, [[1, 3], [5, 7]]], // prettier-ignore
    [{ kind: 'packed', documents: [[0, 2, 7], [2, 5, 8], [5, 9, 7]] }, 1, [[0, 2], [5, 9]]], // prettier-ignore
    [{ kind: 'packed', documents: [[0, 2, 7]] }, 3, []], // prettier-ignore
    [
      {
        kind: 'and',
        of: [
          { kind: 'prefix', length: 2 },
          { kind: 'sliding_window', size: 2 },
        ],
      },
      8,
      [],
    ],
  ])('%j at %i', (mask, query, wanted) => expect(stretches(mask, query)).toEqual(wanted))
})

test.each([
  [10, 4],
  [300, 256],
  [7, 7],
])('%i positions in %i cells lie where the cells were cut', (length, parts) => {
  const bounds = split(length, parts)
  const even = cellsOf(length, parts)
  for (let cell = 0; cell < parts; cell++)
    for (let i = bounds[cell]; i < bounds[cell + 1]; i++) expect(even(i)).toBe(cell)
  const numpy = cellsOf(length, parts, 'array_split')
  const sizes = new Array(parts).fill(0)
  for (let i = 0; i < length; i++) sizes[numpy(i)]++
  expect(sizes).toEqual(
    Array.from({ length: parts }, (_, i) => Math.floor(length / parts) + (i < length % parts ? 1 : 0)),
  )
})

test.each(['causal', 'window', 'padding', 'packed', 'offset', 'prefix'])(
  'a cell is hidden exactly where the mask hides its pair: %s',
  async (name) => {
    const engine = new Engine(folder(join(inject('runs'), name)))
    const layer = (await engine.open()).meta.layers[0]
    const [rows, keys] = [layer.query_len, layer.key_len]
    const spec = { ...HEAD, what: 'weights' as const, queryStart: 0, queryEnd: rows, keyStart: 0, keyEnd: keys }
    const { values } = await engine.window({ ...spec, outRows: rows, outKeys: keys, pool: 'mean' }, 0)
    const map = (await engine.map(HEAD, 'mean'))!
    const may = new Uint8Array(keys)
    let some = 0
    for (let query = 0; query < rows; query++) {
      allowed(layer.mask, query + layer.query_offset, layer.key_offset, keys, may)
      for (let key = 0; key < keys; key++) {
        const value = values[query * keys + key]
        if (Number.isNaN(value)) continue
        expect(Object.is(value, -0)).toBe(!may[key])
        expect(Object.is(map.values[query * keys + key], -0)).toBe(!may[key])
        expect((await engine.cell(HEAD, query, key)).hidden).toBe(!may[key])
        some += may[key] ? 0 : 1
      }
    }
    expect(some).toBeGreaterThan(20)
  },
)

test('a pooled cell is hidden only where all its pairs are', () => {
  const shape = { mask: { kind: 'causal' }, query_len: 9, key_len: 9, query_offset: 0, key_offset: 0 }
  expect([...hidden(shape, { rows: 3, keys: 3 })]).toEqual([1, 2, 5])
  expect([...hidden({ ...shape, query_offset: 3 }, { rows: 3, keys: 3 })]).toEqual([2])
})

describe('the order of heads', () => {
  const heads = [0, 0, 1, 1, 3].map((layer, i) => ({ part: 'self', layer, head: i % 2 }))
  const values = [0.2, 0.9, NaN, 0.5, 0.9]
  test('the largest first, equal ones as they were, those without a value last', () => {
    expect(ranked(values, [0, 1, 2, 3, 4], true)).toEqual([1, 4, 3, 0, 2])
    expect(ranked(values, [0, 1, 2, 3, 4], false)).toEqual([0, 3, 1, 4, 2])
  })
  test('in their places layers are rows and heads are columns', () => {
    const { columns, rows } = arrange(heads, values, 'place')
    expect(columns).toEqual(['0', '1'])
    expect(rows.map((row) => [row.name, row.cells])).toEqual([
      ['0', [0, 1]],
      ['1', [2, 3]],
      ['3', [4, null]],
    ])
  })
  test('within a layer they are sorted, and say which head they are', () => {
    const { rows, named } = arrange(heads, values, 'layer')
    expect(rows.map((row) => row.cells)).toEqual([
      [1, 0],
      [3, 2],
      [4, null],
    ])
    expect(named).toBe('head')
  })
  test('all together they fill rows that begin with their place', () => {
    const { rows, named } = arrange(heads, values, 'smallest')
    expect(rows[0].cells.slice(0, 5)).toEqual([0, 3, 1, 4, 2])
    expect([rows[0].name, named]).toEqual(['1', 'both'])
  })
})

test('while nothing else is known, a sharp head that looks neither next to itself nor to the first token is opened', () => {
  const heads = [0, 1, 2].map((head) => ({ part: 'self', layer: 0, head }))
  const layer = { part: 'self', layer: 0, cross: false, key_len: 1024 }
  const opened = (sharp: number[], distance: number[]) =>
    ({
      heads,
      meta: { layers: [layer] },
      headTable: { max_weight: Float64Array.from(sharp), mean_distance: Float64Array.from(distance) },
    }) as unknown as Opened
  expect(sharpest(opened([0.99, 0.6, 0.95], [1, 40, 512]))).toEqual(heads[1])
  expect(sharpest(opened([NaN, NaN, NaN], [NaN, NaN, NaN]))).toBeNull()
  expect(sharpest({ ...opened([1], [1]), headTable: {} } as Opened)).toBeNull()
})
