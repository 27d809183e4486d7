/** Labels, cursor and pins around and over a matrix. */
import { grouped } from './format'
import { useShared } from './model'
import type { MatrixProps } from './matrix'
import type { View } from './state'
import { useStore } from './store'

/** Room for labels around the plot; those above lean out to the right. */
export const GUTTER = {
  full: { words: { left: 88, top: 78, right: 30 }, numbers: { left: 56, top: 40, right: 12 } },
  compact: { words: { left: 66, top: 62, right: 22 }, numbers: { left: 42, top: 36, right: 8 } },
}

/** Pixels from one label to the next. Those of keys lean, the more the closer they stand. */
const READABLE = { query: 11, key: 12 }
const LINE = 12
const FLATTEST = 48

/** Whether every token in view has room for its label. */
export function readable(axis: 'query' | 'key', cells: number, pixels: number): boolean {
  return pixels / cells >= READABLE[axis]
}

/** By how many degrees labels that stand so far apart must lean not to touch. */
export function lean(cell: number): number {
  const needed = (Math.asin(Math.min(1, LINE / cell)) * 180) / Math.PI
  return Math.round(Math.max(FLATTEST, needed))
}

const WIDE = /[\p{Script=Hangul}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Extended_Pictographic}]/u

/** A label of at most so many letters; those of Chinese, Japanese and Korean count twice, as wide as they are. */
export function cut(text: string, longest: number): string {
  const letters = [...text]
  let room = longest
  const fits = letters.findIndex((letter) => (room -= WIDE.test(letter) ? 2 : 1) < 0)
  return fits < 0 ? text : `${letters.slice(0, Math.max(1, fits - 1)).join('')}…`
}

export interface Tick {
  index: number
  /** Middle of the cell, in pixels of the plot. */
  at: number
  text: string
  word: boolean
}

/** Every token's label where there is room for each; else positions at round steps. */
export function ticks(
  from: number,
  to: number,
  pixels: number,
  labels: string[],
  offset: number,
  words = readable('query', to - from, pixels),
): Tick[] {
  const cell = pixels / (to - from)
  const found: Tick[] = []
  if (!(cell > 0)) return found
  const first = Math.max(0, Math.ceil(from - 0.5))
  const last = Math.min(labels.length - 1, Math.floor(to - 0.5))
  if (words) {
    for (let index = first; index <= last; index++) {
      found.push({ index, at: (index + 0.5 - from) * cell, text: labels[index], word: true })
    }
    return found
  }
  const wanted = 64 / cell
  const decade = 10 ** Math.floor(Math.log10(wanted))
  const step = [1, 2, 5, 10].map((m) => m * decade).find((s) => s >= wanted)!
  for (let position = Math.ceil((first + offset) / step) * step; position - offset <= last; position += step) {
    const index = position - offset
    found.push({ index, at: (index + 0.5 - from) * cell, text: grouped(position), word: false })
  }
  return found
}

/** Half the width of a digit, at most. */
const HALF_DIGIT = 3.6

/** How far a number in the middle of its tick must move to the left to end before the picture does, `room` pixels on. */
export const inward = (text: string, room: number): number => Math.min(0, room - text.length * HALF_DIGIT)

type Props = MatrixProps & {
  view: View
  plot: { width: number; height: number }
  gutter: { left: number; top: number; right: number }
  size: { width: number; height: number }
  /** Along which axes there is room for words; the gutters are made for that. */
  words: { query: boolean; key: boolean }
}

export function Axes({ view, plot, gutter, size, words, labels, offsets, pinned, compact }: Props) {
  const { hover } = useShared()
  const query = useStore(hover, (value) => value.query)
  const key = useStore(hover, (value) => value.key)
  if (!plot.width || !plot.height) return null
  const x = (k: number) => ((k - view.k0) / (view.k1 - view.k0)) * plot.width
  const y = (q: number) => ((q - view.q0) / (view.q1 - view.q0)) * plot.height
  const rows = ticks(view.q0, view.q1, plot.height, labels.query, offsets.query, words.query)
  const columns = ticks(view.k0, view.k1, plot.width, labels.key, offsets.key, words.key)
  const mark = (index: number, at: number | null, pin: number | null) =>
    index === pin ? ' pinned' : index === at ? ' here' : ''
  const band = (kind: string, q: [number, number] | null, k: [number, number] | null) => {
    const [x0, x1] = k ? [x(k[0]), x(k[1])] : [0, plot.width]
    const [y0, y1] = q ? [y(q[0]), y(q[1])] : [0, plot.height]
    const left = Math.max(0, x0)
    const top = Math.max(0, y0)
    const width = Math.min(plot.width, Math.max(x1, x0 + 1.5)) - left
    const height = Math.min(plot.height, Math.max(y1, y0 + 1.5)) - top
    const thin = kind !== 'cursor' && Math.min(x1 - x0, y1 - y0) < 3 ? ' thin' : ''
    return width > 0 && height > 0 ? <rect class={kind + thin} x={left} y={top} width={width} height={height} /> : null
  }
  const angle = lean(plot.width / (view.k1 - view.k0))
  const clip = compact ? 9 : 13
  const steepClip = angle > FLATTEST ? clip - 2 : clip
  return (
    <svg class="axes" width={size.width} height={size.height} aria-hidden="true">
      <text class="axis-name" x={gutter.left} y={11}>
        query ↓ key →
      </text>
      <g transform={`translate(${gutter.left} ${gutter.top})`}>
        {rows.map((tick) => (
          <g
            key={tick.index}
            transform={`translate(-7 ${tick.at})`}
            class={`tick${mark(tick.index, query, pinned.query)}`}
          >
            <text text-anchor="end" dy="0.34em">
              {cut(tick.text, clip)}
            </text>
            {!tick.word && <line x1="2" x2="6" />}
          </g>
        ))}
        {columns.map((tick) => (
          <g key={tick.index} transform={`translate(${tick.at} -7)`} class={`tick${mark(tick.index, key, pinned.key)}`}>
            <text
              x={tick.word ? undefined : inward(tick.text, size.width - gutter.left - tick.at)}
              transform={tick.word ? `rotate(${-angle})` : undefined}
              text-anchor={tick.word ? 'start' : 'middle'}
              dy={tick.word ? '0.3em' : '-0.2em'}
            >
              {cut(tick.text, steepClip)}
            </text>
            {!tick.word && <line y1="2" y2="6" />}
          </g>
        ))}
        <rect class="edge" x="-0.5" y="-0.5" width={plot.width + 1} height={plot.height + 1} />
        {query !== null && band('cursor', [query, query + 1], null)}
        {key !== null && band('cursor', null, [key, key + 1])}
        {['pin-halo', 'pin'].map((kind) => (
          <g key={kind}>
            {pinned.query !== null && band(kind, [pinned.query, pinned.query + 1], null)}
            {pinned.key !== null && band(kind, null, [pinned.key, pinned.key + 1])}
          </g>
        ))}
      </g>
    </svg>
  )
}
