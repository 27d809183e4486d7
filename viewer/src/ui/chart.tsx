/** One line over positions or distances. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { niceTicks } from './scatter'
import { grouped, tickNumber } from './format'

export interface Series {
  x: ArrayLike<number>
  y: ArrayLike<number>
  kind?: 'main' | 'second'
  name?: string
}

export interface ChartProps {
  label: string
  series: Series[]
  logX?: boolean
  logY?: boolean
  xName: string
  yName: string
  marks?: { x: number; y: number; text: string }[]
  cursor?: number | null
  onPoint?: (x: number | null) => void
  onPick?: (x: number) => void
}

const HEIGHT = 158
const EDGE = { left: 46, right: 10, top: 26, bottom: 32 }

/** Points of a line; of several in one pixel the lowest and the highest are kept, so that no peak is lost. */
export function outline(
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  px: (v: number) => number,
  py: (v: number) => number,
): string {
  let text = ''
  let column = NaN
  let low = Infinity
  let high = -Infinity
  let pen = 'M'
  const flush = () => {
    if (low === Infinity) return
    text += `${pen}${column} ${low.toFixed(1)}`
    if (high !== low) text += `L${column} ${high.toFixed(1)}`
    pen = 'L'
  }
  for (let i = 0; i < x.length; i++) {
    if (!Number.isFinite(y[i]) || !Number.isFinite(px(x[i]))) {
      flush()
      ;[pen, low, high, column] = ['M', Infinity, -Infinity, NaN]
      continue
    }
    const at = Math.round(px(x[i]) * 2) / 2
    if (at !== column) {
      flush()
      ;[column, low, high] = [at, Infinity, -Infinity]
    }
    const value = py(y[i])
    if (!Number.isFinite(value)) continue
    low = Math.min(low, value)
    high = Math.max(high, value)
  }
  flush()
  return text
}

function extent(series: Series[], of: 'x' | 'y', positive: boolean): [number, number] {
  let low = Infinity
  let high = -Infinity
  for (const one of series) {
    for (let i = 0; i < one[of].length; i++) {
      const v = one[of][i]
      if (!Number.isFinite(v) || (positive && v <= 0)) continue
      if (v < low) low = v
      if (v > high) high = v
    }
  }
  return low <= high ? [low, high] : [0, 1]
}

function decades(low: number, high: number): number[] {
  const found = []
  for (let d = Math.ceil(Math.log10(low) - 1e-9); d <= Math.log10(high) + 1e-9; d++) found.push(10 ** d)
  return found
}

export function Chart(props: ChartProps) {
  const figure = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(480)
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setWidth(Math.max(240, figure.current!.clientWidth)))
    observer.observe(figure.current!)
    return () => observer.disconnect()
  }, [])
  const { series, logX, logY } = props
  const [x0, x1] = extent(series, 'x', !!logX)
  let [y0, y1] = extent(series, 'y', !!logY)
  if (!logY) y0 = Math.min(0, y0)
  else y0 = Math.max(y0, 10 ** Math.ceil(Math.log10(y1) - 6)) // six decades, from a tick on
  if (y1 <= y0) y1 = y0 + 1
  const scale = (v: number, low: number, high: number, log?: boolean) =>
    log ? Math.log(v / low) / Math.log(high / low || Math.E) : (v - low) / (high - low || 1)
  const px = (v: number) => EDGE.left + scale(v, x0, x1, logX) * (width - EDGE.left - EDGE.right)
  const py = (v: number) =>
    HEIGHT - EDGE.bottom - Math.max(0, scale(v, y0, y1, logY)) * (HEIGHT - EDGE.top - EDGE.bottom)
  const cutBelow = logY && series.some((one) => Array.prototype.some.call(one.y, (v: number) => v < y0))
  const xTicks = logX ? decades(x0, x1) : niceTicks(x0, x1, 6).filter(Number.isInteger)
  const yTicks = logY ? decades(y0, y1).filter((_, i, all) => all.length < 6 || i % 2 === 0) : niceTicks(y0, y1, 3)
  const xAt = (event: MouseEvent) => {
    const share =
      (event.clientX - figure.current!.getBoundingClientRect().left - EDGE.left) / (width - EDGE.left - EDGE.right)
    const inside = Math.min(1, Math.max(0, share))
    return logX ? Math.round(x0 * (x1 / x0) ** inside) : Math.round(x0 + inside * (x1 - x0))
  }
  return (
    <div class="chart-box" ref={figure}>
      <svg
        class="chart"
        width={width}
        height={HEIGHT}
        role="img"
        aria-label={props.label}
        onMouseMove={(event) => props.onPoint?.(xAt(event))}
        onMouseLeave={() => props.onPoint?.(null)}
        onClick={(event) => props.onPick?.(xAt(event))}
      >
        {yTicks.map((v) => (
          <g key={v} transform={`translate(0 ${py(v)})`}>
            <line class="rule" x1={EDGE.left} x2={width - EDGE.right} />
            <text x={EDGE.left - 6} dy="0.34em" text-anchor="end">
              {cutBelow && v === y0 ? '≤ ' : ''}
              {tickNumber(v)}
            </text>
          </g>
        ))}
        {xTicks.map((v) => (
          <text key={v} x={px(v)} y={HEIGHT - EDGE.bottom + 14} text-anchor="middle">
            {grouped(v)}
          </text>
        ))}
        <line class="axis" x1={EDGE.left} x2={width - EDGE.right} y1={HEIGHT - EDGE.bottom} y2={HEIGHT - EDGE.bottom} />
        <text class="axis-name" x={EDGE.left} y={10}>
          {props.yName}
        </text>
        <text class="axis-name" x={width - EDGE.right} y={HEIGHT - 3} text-anchor="end">
          {props.xName}
        </text>
        {series.map((one) => (
          <path key={one.name ?? ''} class={`line ${one.kind ?? 'main'}`} d={outline(one.x, one.y, px, py)} />
        ))}
        {series.every((one) => one.x.length <= 40) &&
          series.flatMap((one) =>
            Array.from(one.x, (x, i) =>
              Number.isFinite(one.y[i]) && Number.isFinite(py(one.y[i])) ? (
                <circle
                  key={`${one.name} ${i}`}
                  class={`dot ${one.kind ?? 'main'}`}
                  cx={px(x)}
                  cy={py(one.y[i])}
                  r={2.5}
                />
              ) : null,
            ),
          )}
        {props.marks?.map((mark) => (
          <g key={mark.x} class="mark">
            <circle cx={px(mark.x)} cy={py(mark.y)} r={4} />
            <text
              x={px(mark.x) + (px(mark.x) > width - 120 ? -7 : 7)}
              y={py(mark.y)}
              dy="0.34em"
              text-anchor={px(mark.x) > width - 120 ? 'end' : 'start'}
            >
              {mark.text}
            </text>
          </g>
        ))}
        {props.cursor !== null && props.cursor !== undefined && (
          <line
            class="cursor-line"
            x1={px(props.cursor)}
            x2={px(props.cursor)}
            y1={EDGE.top}
            y2={HEIGHT - EDGE.bottom}
          />
        )}
      </svg>
    </div>
  )
}
