import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { Engine } from '../src/data/engine'
import { LeftOutError, type Source } from '../src/data/source'
import { folder } from './files'

const HEAD = { part: 'self', layer: 3, head: 2 }
const HALF = 2e-3

/** The run as an exported file within a size holds it: without its tables. */
function without(source: Source): Source {
  return {
    read: (path, start, end) =>
      /^(query|key|distance)\.parquet$/.test(path)
        ? Promise.reject(new LeftOutError(`${path} was left out`))
        : source.read(path, start, end),
  }
}

async function both(name: string) {
  const source = folder(join(inject('runs'), name))
  const [whole, part] = [new Engine(source), new Engine(without(source))]
  const { meta } = await whole.open()
  await part.open()
  return { whole, part, layer: meta.layers[0] }
}

test.each(['causal', 'padding', 'window_both', 'offset'])(
  'pooled profiles hold the lowest and the highest of every bin: %s',
  async (name) => {
    const { whole, part } = await both(name)
    for (const [table, value] of [
      ['query', 'entropy'],
      ['key', 'received_mean'],
    ] as const) {
      const rows = (await whole.columns(table, HEAD))!
      const { columns, pooled } = await part.profile(table, HEAD)
      expect(pooled).toBeGreaterThan(1)
      const all = rows[value] as Float64Array
      const some = columns![value] as Float64Array
      expect(some.length).toBeLessThan(all.length)
      expect(Math.abs(Math.max(...some) - Math.max(...all))).toBeLessThan(HALF)
      expect(Math.abs(Math.min(...some) - Math.min(...all))).toBeLessThan(HALF)
      const positions = columns!.position as Float64Array
      for (let i = 1; i < positions.length; i++) expect(positions[i]).toBeGreaterThanOrEqual(positions[i - 1])
    }
  },
)

test('the highest key of a bin stands where it is, so that a sink keeps its name', async () => {
  const { whole, part } = await both('causal')
  const rows = (await whole.columns('key', HEAD))!
  const all = rows.received_mean as Float64Array
  const top = all.indexOf(Math.max(...all))
  const { columns } = await part.profile('key', HEAD)
  const some = columns!.received_mean as Float64Array
  const at = some.indexOf(Math.max(...some))
  expect((columns!.position as Float64Array)[at]).toBe((rows.position as Float64Array)[top])
})

test('short distances keep their own mean, long ones share one', async () => {
  const { whole, part } = await both('causal')
  const rows = (await whole.columns('distance', HEAD))!
  const { columns } = await part.profile('distance', HEAD)
  const distances = columns!.distance as Float64Array
  expect([...distances.slice(0, 8)]).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
  expect(distances.length).toBeLessThan((rows.distance as Float64Array).length - 1)
  for (let i = 0; i < 8; i++) {
    const wanted = (rows.distance_mean as Float64Array)[(rows.distance as Float64Array).indexOf(i + 1)]
    expect((columns!.distance_mean as Float64Array)[i]).toBeCloseTo(wanted, 6)
  }
})

test('where a run has its tables, a profile is every row of them', async () => {
  const { whole, layer } = await both('causal')
  const { columns, pooled } = await whole.profile('query', HEAD)
  expect(pooled).toBe(1)
  expect(columns!.entropy).toHaveLength(layer.query_len)
})
