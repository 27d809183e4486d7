import { afterEach, expect, test, vi } from 'vitest'
import { served } from '../src/data/served'
import { rawScores, rehearse } from '../src/data/weights'

afterEach(() => vi.unstubAllGlobals())

test('where this thread may not ask the server, another is asked', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('blocked by the policy')))
  const asked: unknown[] = []
  const page = {
    read: async (...what: unknown[]) => {
      asked.push(what)
      return Uint8Array.of(7)
    },
  }
  expect(await served('http://127.0.0.1/', page).read('run.json', 2, 3)).toEqual(Uint8Array.of(7))
  expect(asked).toEqual([['run.json', 2, 3]])
  await expect(served('http://127.0.0.1/').read('run.json', 0, null)).rejects.toThrow('does not answer')
})

test.each([1, 2, 5])('products of %i rows with some of the keys leave the others as they are', (count) => {
  const [dim, n] = [3, 11]
  const query = Float32Array.from({ length: 6 * dim }, (_, i) => Math.sin(i))
  const key = Float32Array.from({ length: n * dim }, (_, i) => Math.cos(i))
  const rows = { query, rowMax: query, rowSum: query, position: 0 }
  const out = new Float64Array(count * n).fill(9)
  rawScores(rows, 1, count, { key, position: 0, count: n }, dim, out, 2, 9)
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < n; j++) {
      let sum = 0
      for (let d = 0; d < dim; d++) sum += query[(1 + i) * dim + d] * key[j * dim + d]
      expect(out[i * n + j]).toBeCloseTo(j < 2 || j > 8 ? 9 : sum, 12)
    }
  }
})

test('a rehearsal lets other work in between', async () => {
  let pauses = 0
  await rehearse(async () => void pauses++)
  expect(pauses).toBeGreaterThan(8)
})
