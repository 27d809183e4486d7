import { describe, expect, test } from 'vitest'
import { inside } from '../src/data/inside'
import type { Opened, Tokens } from '../src/data/run'
import { parseMeta } from '../src/data/run'
import { LeftOutError } from '../src/data/source'
import { decode } from '../src/data/safetensors'
import { cut, inward, lean, readable, ticks } from '../src/ui/axes'
import { outline } from '../src/ui/chart'
import { grouped, number, oneLine, tickNumber, utf16Offsets, visible } from '../src/ui/format'
import { moved, zoomed } from '../src/ui/gestures'
import { split } from '../src/data/weights'
import { piecesOf as zonesOf } from '../src/ui/grids'
import { piecesOf } from '../src/ui/pieces'
import { csvOf } from '../src/ui/save'
import { coveringOf, type Grids } from '../src/ui/grids'
import { fitView, fromLink, START, toLink, type State } from '../src/ui/state'

describe('links', () => {
  const state: State = {
    ...START,
    run: 1,
    head: { part: 'cross', layer: 5, head: 11 },
    otherHead: { part: 'self', layer: 0, head: 2 },
    statistic: 'max_weight',
    headView: 'scatter',
    order: 'layer',
    sort: 'mean_distance',
    down: 'yes',
    page: 3,
    centre: 'compare',
    view: { q0: 3, q1: 40.5, k0: 0, k1: 12 },
    pool: 'max',
    colour: 'linear',
    query: 8,
    key: -2,
    textView: 'lines',
    otherRun: 1,
    theme: 'dark',
  }
  test('a link reopens the same view', () => expect(fromLink(toLink(state))).toEqual(state))
  test('the start needs no link', () => expect(toLink(START)).toBe(''))
  test.each([
    'head=<img>',
    'view=1_2',
    'view=9_1_0_4',
    'query=1e9',
    'statistic=<script>',
    'theme=pink',
    'order=upwards&sort=<b>&page=x&down=maybe',
    'head=self.99999999.1',
    '%%%',
    'view=NaN_1_2_3',
  ])('what makes no sense in a link is left out: %s', (link) => expect(fromLink(link)).toEqual(START))
})

describe('views', () => {
  test('a view stays inside the matrix and shows at least four cells', () => {
    expect(fitView({ q0: -5, q1: 5, k0: 95, k1: 105 }, 100, 100)).toEqual({ q0: 0, q1: 10, k0: 90, k1: 100 })
    const tiny = fitView({ q0: 50, q1: 50.1, k0: 50, k1: 50.1 }, 100, 100)!
    expect(tiny.q1 - tiny.q0).toBe(4)
    expect(fitView({ q0: -10, q1: 300, k0: -10, k1: 300 }, 100, 100)).toBeNull()
    expect(fitView({ q0: 0, q1: 1, k0: 0, k1: 2 }, 2, 2)).toBeNull()
    const within = { q0: 0.1, q1: 10.7, k0: 3.3, k1: 99.9 }
    expect(fitView(within, 100, 100)).toEqual(within)
    expect(fitView({ q0: 1e300, q1: 2e300, k0: -9, k1: 1 }, 100, 100)).toEqual({ q0: 0, q1: 100, k0: 0, k1: 10 })
  })
  test('zooming keeps the point under the pointer', () => {
    const view = zoomed({ q0: 0, q1: 100, k0: 0, k1: 100 }, 0.5, 0.25, 0.75)
    expect(view.k0 + 0.25 * (view.k1 - view.k0)).toBe(25)
    expect(view.q0 + 0.75 * (view.q1 - view.q0)).toBe(75)
  })
  test('moving stops at the edge without changing the size', () => {
    expect(moved({ q0: 2, q1: 12, k0: 0, k1: 10 }, -9, 500, 20, 30)).toEqual({ q0: 0, q1: 10, k0: 20, k1: 30 })
  })
  test('labels are words where they fit, and round positions where not', () => {
    const labels = Array.from({ length: 1000 }, (_, i) => `w${i}`)
    expect(ticks(10, 20, 300, labels, 0).map((t) => t.text)).toEqual(labels.slice(10, 20))
    expect(ticks(0, 1000, 500, labels, 0).every((t) => !t.word && t.index % 200 === 0)).toBe(true)
    expect(ticks(0, 1000, 500, labels, 7)[0]).toMatchObject({ index: 193, text: '200' })
    expect(ticks(0, 32, 352, labels, 0, false).every((t) => !t.word)).toBe(true)
  })
  test('labels of keys lean so that none touches the next, however close they stand', () => {
    for (let pixels = 5; pixels < 60; pixels += 0.5) {
      if (readable('key', 1, pixels)) expect(pixels * Math.sin((lean(pixels) * Math.PI) / 180)).toBeGreaterThan(11.9)
    }
  })
  test('a label is cut by its width', () => {
    expect(cut('because', 7)).toBe('because')
    expect(cut('because', 6)).toBe('becau…')
    expect(cut('고양이가', 8)).toBe('고양이가')
    expect(cut('고양이가', 7)).toBe('고양…')
    expect(cut('👩‍👩‍👧', 0)).toBe('👩…')
  })
  test('a tick has no zeros that tell nothing', () => {
    expect([0.01, 0.2, 1e-6, 2.5e-4, 100, 1.5, 0, -0.05].map(tickNumber)).toEqual([
      '0.01',
      '0.2',
      '1e−6',
      '2.5e−4',
      '100',
      '1.5',
      '0',
      '−0.05',
    ])
  })
})

describe('text', () => {
  test('direction marks, controls and lone surrogates become visible', () => {
    expect(visible('a\u202eb\u0000c\u007f\ud800')).toBe('a‹202E›b␀c␡‹D800›')
    expect(visible('\u2066x\u2069\u200b\ufeff')).toBe('‹2066›x‹2069›‹200B›‹FEFF›')
  })
  test('emoji that are joined stay whole, and lines stay lines', () => {
    expect(visible('👩‍👩‍👧\nمی‌خواهم')).toBe('👩‍👩‍👧\nمی‌خواهم')
  })
  test('labels take one line', () => expect(oneLine('a\nb\tc'.repeat(20))).toMatch(/^a⏎b⇥c.*…$/))
  test('thousands are told apart', () => {
    expect([0, 999, 1000, 8192, 1234567, -4096, 0.5].map(grouped)).toEqual(
      ['0', '999', '1,000', '8,192', '1,234,567', '-4,096', '0.5'], // prettier-ignore
    )
  })
  test('offsets that count characters become offsets that count UTF-16 units', () => {
    expect(utf16Offsets('abc')).toBeNull()
    expect([...utf16Offsets('a🙂b')!]).toEqual([0, 1, 3, 4])
  })
  test('a text is cut at its tokens, with what lies between them', () => {
    const pieces = piecesOf(
      opened(
        '<b>🙂 나는',
        [
          [-1, -1],
          [0, 3],
          [3, 4],
          [5, 6],
          [6, 7],
          [-1, -1],
        ],
        [0, 5],
      ),
    )
    expect(pieces.map((p) => p.before + p.text)).toEqual(['t0', ' <b>', '🙂', ' 나', '는', ' t5'])
  })
  test('further parts of one character show only which part they are', () => {
    const run = opened(
      '나a',
      [
        [0, 1],
        [0, 1],
        [0, 1],
        [1, 2],
      ],
      [],
    )
    run.tokens.label = ['나 ⅓', '나 ⅔', '나 ³⁄₃', 'a']
    expect(piecesOf(run).map((p) => p.text)).toEqual(['나', '⅔', '³⁄₃', 'a'])
  })
  test('tokens that overlap or go back show their labels', () => {
    const pieces = piecesOf(
      opened(
        'abc',
        [
          [0, 2],
          [1, 3],
          [2, 3],
        ],
        [],
      ),
    )
    expect(pieces.map((p) => p.text)).toEqual(['ab', 't1', 'c'])
  })
  test('numbers take three digits and a true minus', () => {
    expect([0.12345, 1e-7, -2, NaN, -Infinity, 123456].map(number)).toEqual([
      '0.123',
      '1.0e−7',
      '−2',
      '–',
      '−∞',
      '123456',
    ])
  })
})

function opened(text: string, spans: [number, number][], special: number[]): Opened {
  const count = spans.length
  const tokens = {
    count,
    label: spans.map((_, i) => `t${i}`),
    start: Float64Array.from(spans, (s) => s[0]),
    end: Float64Array.from(spans, (s) => s[1]),
    special: spans.map((_, i) => special.includes(i)),
    segment: new Float64Array(count),
    sequence: new Array<string>(count).fill('text'),
  } as Tokens
  return { tokens, text, textPair: null } as Opened
}

test('a table for a spreadsheet holds no formulas and no broken lines', async () => {
  const text = await csvOf({
    columns: ['a', 'b'],
    rows: [
      ['=1+1', 0.5],
      ['x,"y"\n', NaN],
    ],
  }).text()
  expect(text.replace('\ufeff', '')).toBe('a,b\r\n\'=1+1,0.5\r\n"x,""y""\n",\r\n')
})

test('a line keeps every peak and breaks where a value is missing', () => {
  const path = outline(
    [0, 0.1, 0.2, 5, 6, 7],
    [1, 9, 2, NaN, 3, 4],
    (v) => v,
    (v) => v,
  )
  expect(path).toBe('M0 1.0L0 9.0M6 3.0L7 4.0')
})

describe('files inside a page', () => {
  const texts: Record<string, string> = { a: btoa('hello'), b: btoa('world!') }
  const source = inside(
    {
      'x.bin': {
        size: 20,
        chunks: [
          [0, 5, 'a', 0],
          [5, 6, 'b', 0],
        ],
      },
    },
    (id) => texts[id] ?? null,
  )
  const read = async (start: number, end: number | null) =>
    new TextDecoder().decode(await source.read('x.bin', start, end))
  test('ranges may span blocks', async () => expect(await read(3, 8)).toBe('lowor'))
  test('what was left out is an error of its own', async () => {
    await expect(read(8, 15)).rejects.toThrow(LeftOutError)
    await expect(read(0, null)).rejects.toThrow(LeftOutError)
    await expect(source.read('y', 0, 1)).rejects.toThrow(LeftOutError)
  })
})

test('half floats and bfloat16 become the numbers they stand for', () => {
  const bytes = (...bits: number[]) => new Uint8Array(Uint16Array.from(bits).buffer)
  expect([...decode('F16', bytes(0x3c00, 0xc000, 0x0001, 0x7c00, 0x3555))]).toEqual([
    1,
    -2,
    2 ** -24,
    Infinity,
    0.333251953125,
  ])
  expect(decode('F16', bytes(0x7e00))[0]).toBeNaN()
  expect([...decode('BF16', bytes(0x3f80, 0xc000, 0x3eab))]).toEqual([1, -2, 0.333984375])
})

test.each([
  ['{', 'not JSON'],
  ['{"format":"other"}', 'not a heedmap run'],
  ['{"format":"heedmap-run","version":2}', 'update heedmap'],
  ['{"format":"heedmap-run","version":1,"layers":[]}', 'incomplete'],
])('a run.json that cannot be read says why: %s', (text, why) => {
  expect(() => parseMeta(text)).toThrow(why)
})

test('a pooled map is drawn where its cells lie, however numpy.array_split cut it', () => {
  const n = 300 // the first 44 of 256 cells hold two positions
  const values = new Float32Array(256 * 256)
  for (let i = 0; i < 256; i++) values[i * 257] = 1
  const pieces = zonesOf({ rows: 256, keys: 256, values, cut: 'array_split' }, { query_len: n, key_len: n })
  expect(pieces.map((p) => [p.q0, p.q1, p.k0, p.k1])).toEqual([
    [0, 88, 0, 88],
    [0, 88, 88, 300],
    [88, 300, 0, 88],
    [88, 300, 88, 300],
  ])
  for (const piece of pieces) {
    for (let row = 0; row < piece.rows; row++) {
      for (let column = 0; column < piece.keys; column++) {
        if (!piece.values[row * piece.keys + column]) continue
        expect(piece.q0 + (row * (piece.q1 - piece.q0)) / piece.rows).toBe(
          piece.k0 + (column * (piece.k1 - piece.k0)) / piece.keys,
        )
      }
    }
  }
  expect(zonesOf({ rows: 64, keys: 64, values: new Float32Array(4096) }, { query_len: n, key_len: n })).toHaveLength(1)
})

test('windows are cut evenly', () => {
  const bounds = split(2048, 622)
  for (let i = 0; i <= 622; i++) expect(Math.abs(bounds[i] - (i * 2048) / 622)).toBeLessThan(1)
})

test('the last number of an axis ends within the picture', () => {
  expect(inward('2,000', 8)).toBe(8 - 5 * 3.6)
  expect(inward('2,000', 40)).toBe(0)
})

describe('windows', () => {
  test('take the place of the pooled map only where they cover the whole view', () => {
    const detail = { q0: 10, q1: 20, k0: 30, k1: 40, rows: 10, keys: 10, values: new Float32Array(100) }
    const grids = (window: typeof detail | null): Grids => ({
      base: [],
      detail: window,
      why: null,
      error: null,
      cell: { queries: 1, keys: 1 },
      exact: true,
      busy: false,
      stale: false,
    })
    expect(coveringOf(grids(detail), { q0: 10.5, q1: 20, k0: 30, k1: 39.2 })).toBe(detail)
    expect(coveringOf(grids(detail), { q0: 0, q1: 100, k0: 0, k1: 100 })).toBeNull()
    expect(coveringOf(grids(null), { q0: 10, q1: 20, k0: 30, k1: 40 })).toBeNull()
  })
})
