import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { css, palette, type Theme } from '../ui/colour'
import { number } from '../ui/format'
import { Legend } from './legend'
import { rangeOf, shareOf, type HeadPage, type Overview } from './documents'

const BOX = { height: 170, left: 46, right: 10, top: 10, bottom: 32 }
const NARROWEST = 240

/** How wide a chart's place is, and what to fasten to it: a chart is drawn anew, not stretched, when that changes. */
function useWidth() {
  const place = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(340)
  useLayoutEffect(() => {
    const look = () => setWidth(Math.max(NARROWEST, place.current!.clientWidth))
    const observer = new ResizeObserver(look)
    observer.observe(place.current!)
    look()
    return () => observer.disconnect()
  }, [])
  return { place, width }
}

/** A head's short name; the part only where there are several. */
export function headName([part, layer, head]: [string, number, number], parts: number): string {
  return parts > 1 ? `${part} ${layer}.${head}` : `${layer}.${head}`
}

/** Every head as a cell, coloured by the mean of one statistic: a row a layer. */
export function Grid(props: {
  overview: Overview
  statistic: string
  head: number
  /** A type of head, whose heads alone stay in full colour. */
  shown: string | null
  theme: Theme
  onOpen: (head: number) => void
}) {
  const { overview, statistic, theme } = props
  const values = overview.means[statistic]
  const range = rangeOf(values)
  const table = palette('sequential', theme)
  const rows = new Map<string, number[]>()
  overview.heads.forEach(([part, layer], at) => {
    const key = `${part} ${layer}`
    rows.set(key, [...(rows.get(key) ?? []), at])
  })
  const parts = new Set(overview.heads.map((head) => head[0])).size
  const numbered = [...rows.values()].every((row) => row.every((at, place) => overview.heads[at][2] === place))
  const across = numbered ? Math.max(...[...rows.values()].map((row) => row.length)) : 0
  return (
    <div class="set-grid" role="group" aria-label={`heads by mean ${statistic}`}>
      <div class="set-row soft" aria-hidden="true">
        <span class="set-layer" />
        {Array.from({ length: across }, (_, at) => (
          <span class="set-number" key={at}>
            {at}
          </span>
        ))}
      </div>
      {[...rows.values()].map((row) => (
        <div class="set-row" key={row[0]}>
          <span class="set-layer">{headName(overview.heads[row[0]], parts).replace(/\.\d+$/, '')}</span>
          {row.map((at) => {
            const value = values[at]
            const name = headName(overview.heads[at], parts)
            const types = overview.types[at]
            const told = [`head ${name}: ${value === null ? 'no value' : number(value)}`, ...types].join(', ')
            const faded = props.shown !== null && !types.includes(props.shown)
            return (
              <button
                key={at}
                class={faded ? 'set-cell faded' : 'set-cell'}
                aria-pressed={at === props.head}
                aria-label={told}
                title={told}
                style={value === null ? {} : { background: css(table, shareOf(value, range)) }}
                onClick={() => props.onOpen(at)}
              />
            )
          })}
        </div>
      ))}
      {values.every((value) => value === null) ? (
        <p class="soft">no head has a value</p>
      ) : (
        <Legend low={number(range[0])} high={`${number(range[1])} ${overview.units[statistic]}`} theme={theme} />
      )}
    </div>
  )
}

/** Every head as a point by the means of two statistics. */
export function Scatter(props: {
  overview: Overview
  x: string
  y: string
  head: number
  onOpen: (head: number) => void
}) {
  const { overview, x, y } = props
  const { place, width } = useWidth()
  const { left, right, top, bottom } = BOX
  const height = 260
  const [xs, ys] = [overview.means[x], overview.means[y]]
  const [xr, yr] = [rangeOf(xs), rangeOf(ys)]
  const parts = new Set(overview.heads.map((head) => head[0])).size
  const points = overview.heads.flatMap((head, at) => {
    const [a, b] = [xs[at], ys[at]]
    return a === null || b === null ? [] : [{ head, at, a, b }]
  })
  return (
    <div ref={place}>
      <svg
        class="chart"
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        height={height}
        role="group"
        aria-label={`${y} against ${x}`}
      >
        {points.length > 0 && <Frame width={width} height={height} x={xr} y={yr} label={x} />}
        {points.length === 0 && (
          <text x={left} y={height / 2}>
            no head has both values
          </text>
        )}
        {points.map(({ head, at, a, b }) => (
          <circle
            key={at}
            class={at === props.head ? 'set-dot chosen' : 'set-dot'}
            cx={left + shareOf(a, xr) * (width - left - right)}
            cy={height - bottom - shareOf(b, yr) * (height - top - bottom)}
            r={at === props.head ? 6 : 4}
            onClick={() => props.onOpen(at)}
          >
            <title>{`head ${headName(head, parts)}: ${x} ${number(a)}, ${y} ${number(b)}`}</title>
          </circle>
        ))}
      </svg>
    </div>
  )
}

function Frame(props: { width: number; height: number; x: [number, number]; y: [number, number]; label: string }) {
  const { left, right, top, bottom } = BOX
  const { width } = props
  const base = props.height - bottom
  return (
    <g>
      <line class="axis" x1={left} x2={width - right} y1={base} y2={base} />
      <line class="axis" x1={left} x2={left} y1={top} y2={base} />
      <text x={left} y={base + 14}>
        {number(props.x[0])}
      </text>
      <text x={width - right} y={base + 14} text-anchor="end">
        {number(props.x[1])}
      </text>
      <text class="axis-name" x={(left + width - right) / 2} y={base + 27} text-anchor="middle">
        {props.label}
      </text>
      <text x={left - 4} y={base} text-anchor="end">
        {number(props.y[0])}
      </text>
      <text x={left - 4} y={top + 8} text-anchor="end">
        {number(props.y[1])}
      </text>
    </g>
  )
}

export interface Bar {
  from: number
  to: number
  value: number
  says: string
}

/** Bars between two ends of an axis, from 0 up, or down where values are negative. */
export function Bars(props: { bars: Bar[]; label: string; name: string; ends: [number, number] }) {
  const { place: box, width } = useWidth()
  const { height, left, right, top, bottom } = BOX
  const [low, high] = [Math.min(...props.bars.map((bar) => bar.from)), Math.max(...props.bars.map((bar) => bar.to))]
  const most = Math.max(...props.bars.map((bar) => bar.value), 0)
  const least = Math.min(...props.bars.map((bar) => bar.value), 0)
  const tall = (value: number) => shareOf(value, [least, most]) * (height - top - bottom)
  const place = (at: number) => left + shareOf(at, [low, high]) * (width - left - right)
  return (
    <div ref={box}>
      <svg
        class="chart"
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        height={height}
        role="img"
        aria-label={props.name}
      >
        <Frame width={width} height={height} x={props.ends} y={[least, most]} label={props.label} />
        {props.bars.map((bar) => {
          const [from, to] = [tall(Math.min(0, bar.value)), tall(Math.max(0, bar.value))]
          return (
            <rect
              key={bar.from}
              class="set-bar"
              x={place(bar.from)}
              width={Math.max(0.5, place(bar.to) - place(bar.from) - 0.5)}
              y={height - bottom - to}
              height={to - from}
            >
              <title>{bar.says}</title>
            </rect>
          )
        })}
      </svg>
    </div>
  )
}

/** Distances as bars whose place grows with the root of the distance, ahead to the left. */
export function distanceBars(rows: HeadPage['profiles']): Bar[] {
  const at = (distance: number) => Math.sign(distance) * Math.sqrt(Math.abs(distance))
  return rows.map((row) => {
    const span =
      row.distance_from === row.distance_to ? `${row.distance_from}` : `${row.distance_from} to ${row.distance_to}`
    return {
      from: at(row.distance_from - 0.5),
      to: at(row.distance_to + 0.5),
      value: row.mean_weight,
      says: `distance ${span}: mean weight ${number(row.mean_weight)} over ${row.pairs} pairs`,
    }
  })
}

/** The mean map in relative positions: a row is how attention from there is shared out. */
export function MeanMap(props: { map: number[][]; theme: Theme }) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const size = props.map.length
  const most = Math.max(...props.map.flat(), Number.MIN_VALUE)
  useEffect(() => {
    const context = canvas.current?.getContext('2d')
    if (!context) return
    const table = palette('sequential', props.theme)
    props.map.forEach((row, i) =>
      row.forEach((value, j) => {
        context.fillStyle = css(table, Math.sqrt(value / most))
        context.fillRect(j, i, 1, 1)
      }),
    )
  }, [props.map, props.theme])
  return (
    <>
      <canvas
        ref={canvas}
        class="set-map"
        width={size}
        height={size}
        role="img"
        aria-label="mean map: from top to bottom the row's place in its text, from left to right the place looked at"
      />
      <Legend low="0" high={`${number(most)} of a row`} theme={props.theme} />
    </>
  )
}
