import { join } from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { Engine } from '../src/data/engine'
import { folder, numbers } from './files'

const runs = inject('runs')
const HEAD = { part: 'self', layer: 3, head: 2 }
const MASKS = [
  'all',
  'causal',
  'window',
  'window_both',
  'chunked',
  'prefix',
  'padding',
  'packed',
  'softcap_sinks',
  'bf16',
  'fp16',
  'offset',
]

async function opened(name: string) {
  const source = folder(join(runs, name))
  const engine = new Engine(source)
  const run = await engine.open()
  return { source, engine, run, layer: run.meta.layers[0], python: (await numbers(join(runs, `${name}.json`))) as any }
}

function close(got: ArrayLike<number>, wanted: number[], tolerance = 1e-5) {
  expect(got.length).toBe(wanted.length)
  for (let i = 0; i < wanted.length; i++) {
    if (Number.isNaN(wanted[i])) expect(got[i]).toBeNaN()
    else if (!Number.isFinite(wanted[i])) expect(got[i]).toBe(wanted[i])
    else expect(Math.abs(got[i] - wanted[i])).toBeLessThanOrEqual(tolerance * Math.max(1, Math.abs(wanted[i])))
  }
}

describe.each(MASKS)('%s', (name) => {
  test('the weights, scores and raw scores of every row are those of Python', async () => {
    const { engine, layer, python } = await opened(name)
    for (let query = 0; query < layer.query_len; query++) {
      const row = await engine.row(HEAD, query)
      close(row.weights, python.weights[query])
      close(row.scores, python.scores[query])
      close(row.raw, python.raw[query])
    }
  })

  test('a window holds the same weights as the rows', async () => {
    const { engine, layer, python } = await opened(name)
    const spec = {
      ...HEAD,
      what: 'weights' as const,
      queryStart: 2,
      queryEnd: layer.query_len - 1,
      keyStart: 3,
      keyEnd: 30,
      outRows: 999,
      outKeys: 999,
      pool: 'mean' as const,
    }
    const grid = await engine.window(spec, 0)
    expect([grid.rows, grid.keys]).toEqual([layer.query_len - 3, 27])
    close(
      grid.values,
      python.weights.slice(2, layer.query_len - 1).flatMap((row: number[]) => row.slice(3, 30)),
    )
  })

  test('the whole matrix pooled in the browser is the run’s pooled map', async () => {
    const { engine, layer, python } = await opened(name)
    for (const pool of ['mean', 'max'] as const) {
      const map = (await engine.map(HEAD, pool))!
      close(map.values, (pool === 'max' ? python.max : python.map).flat(), 1e-6)
      const spec = {
        ...HEAD,
        what: 'weights' as const,
        queryStart: 0,
        queryEnd: layer.query_len,
        keyStart: 0,
        keyEnd: layer.key_len,
        outRows: map.rows,
        outKeys: map.keys,
        pool,
      }
      const mine = (await engine.window(spec, 0)).values
      for (let i = 0; i < mine.length; i++) {
        if (!Number.isNaN(mine[i])) expect(Math.abs(mine[i] - map.values[i])).toBeLessThan(1e-5)
      }
    }
  })

  test('tables are read by head', async () => {
    const { engine, source, python } = await opened(name)
    source.reads.length = 0
    const query = (await engine.columns('query', HEAD))!
    close(query.entropy as Float64Array, python.entropy, 0)
    close(query.position as Float64Array, python.position, 0)
    expect((await engine.columns('key', HEAD))!.received).toHaveLength(37)
  })
})

test('a mask without a description turns exact zoom off and says why', async () => {
  const { engine } = await opened('opaque')
  expect(await engine.whyNotExact(HEAD)).toContain('made of a function')
})

test('exact zoom is on where the run describes the whole formula', async () => {
  const { engine } = await opened('causal')
  expect(await engine.whyNotExact(HEAD)).toBeNull()
})

test('the head table names every head', async () => {
  const { run, python } = await opened('causal')
  expect(run.heads).toHaveLength(4)
  close(run.headTable.entropy, python.head_entropy, 0)
  expect(run.tokens.label[5]).toBe('t5')
  expect(run.tokens.special.slice(0, 2)).toEqual([true, false])
})
