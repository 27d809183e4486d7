import { headName } from '../data/run'
import { KIND_COLOURS } from './colour'
import { number, tickNumber } from './format'
import { sameHead, useCurrent } from './model'
import { rangeOf, type Measure } from './statistics'

const SIZE = { width: 320, height: 300, left: 40, right: 10, top: 10, bottom: 34 }

export function niceTicks(low: number, high: number, about = 4): number[] {
  const span = high - low || 1
  const decade = 10 ** Math.floor(Math.log10(span / about))
  const step = [1, 2, 5, 10].map((m) => m * decade).find((s) => span / s <= about + 1)!
  const found = []
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step)
    found.push(Math.round(v / step) * step)
  return found.map((v) => Number(v.toPrecision(12)))
}

/** Every head as a point by two statistics. */
export function Scatter(props: {
  x: Measure
  y: Measure
  kinds: string[] | null
  onTell: (index: number | null) => void
  onOpen: (index: number) => void
}) {
  const { run, id } = useCurrent()!
  const { width, height, left, right, top, bottom } = SIZE
  const pad = ([low, high]: [number, number]): [number, number] => [
    low - (high - low) * 0.04,
    high + (high - low || 1) * 0.04,
  ]
  const [x0, x1] = pad(rangeOf(props.x.values))
  const [y0, y1] = pad(rangeOf(props.y.values))
  const x = (v: number) => left + ((v - x0) / (x1 - x0)) * (width - left - right)
  const y = (v: number) => height - bottom - ((v - y0) / (y1 - y0)) * (height - top - bottom)
  const { heads } = run.opened
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]
    const target = (event.target as Element).closest<SVGElement>('[data-index]')
    if (!target) return
    const index = Number(target.getAttribute('data-index'))
    if (event.key === 'Enter' || event.key === ' ') props.onOpen(index)
    else if (!step) return
    event.preventDefault()
    if (!step) return
    const order = heads
      .map((_, i) => i)
      .filter((i) => Number.isFinite(props.x.values[i]))
      .sort((a, b) => props.x.values[a] - props.x.values[b])
    const next = order[(order.indexOf(index) + step + order.length) % order.length]
    ;(event.currentTarget as SVGElement).querySelector<SVGElement>(`[data-index="${next}"]`)?.focus()
  }
  return (
    <svg
      class="chart scatter"
      viewBox={`0 0 ${width} ${height}`}
      role="group"
      aria-label={`Heads by ${props.x.label} and ${props.y.label}`}
      onKeyDown={move}
    >
      {niceTicks(x0, x1).map((v) => (
        <g key={v} transform={`translate(${x(v)} 0)`}>
          <line class="rule" y1={top} y2={height - bottom} />
          <text y={height - bottom + 14} text-anchor="middle">
            {tickNumber(v)}
          </text>
        </g>
      ))}
      {niceTicks(y0, y1).map((v) => (
        <g key={v} transform={`translate(0 ${y(v)})`}>
          <line class="rule" x1={left} x2={width - right} />
          <text x={left - 6} dy="0.34em" text-anchor="end">
            {tickNumber(v)}
          </text>
        </g>
      ))}
      <text class="axis-name" x={(left + width - right) / 2} y={height - 4} text-anchor="middle">
        {props.x.label}
        {props.x.unit && ` (${props.x.unit})`}
      </text>
      <text class="axis-name" x={left} y={top - 1} text-anchor="start">
        {props.y.label}
        {props.y.unit && ` (${props.y.unit})`}
      </text>
      {heads.map((head, i) => {
        if (!Number.isFinite(props.x.values[i]) || !Number.isFinite(props.y.values[i])) return null
        const chosen = sameHead(head, id)
        return (
          <circle
            key={i}
            class={chosen ? 'point chosen' : 'point'}
            data-index={i}
            cx={x(props.x.values[i])}
            cy={y(props.y.values[i])}
            r={chosen ? 6 : 4}
            fill={props.kinds ? KIND_COLOURS[props.kinds[i]] : 'var(--accent)'}
            role="button"
            tabIndex={chosen ? 0 : -1}
            aria-label={`Head ${headName(head, run.parts.length)}: ${props.x.label} ${number(props.x.values[i])}, ${props.y.label} ${number(props.y.values[i])}`}
            onMouseEnter={() => props.onTell(i)}
            onMouseLeave={() => props.onTell(null)}
            onFocus={() => props.onTell(i)}
            onClick={() => props.onOpen(i)}
          />
        )
      })}
    </svg>
  )
}
