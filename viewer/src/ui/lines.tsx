/** Two columns of tokens with a line for each weight, for short texts. */
import { useMemo } from 'preact/hooks'
import type { Grid } from '../data/engine'
import { labelsOf, useAsync, useCurrent, useShared } from './model'
import { number } from './format'
import { usePins } from './pins'
import { useStore } from './store'

export const LONGEST_LINES = 64
const STEP = 22
const FAINTEST = 0.01

export function Lines() {
  const { hover } = useShared()
  const { run, id, layer } = useCurrent()!
  const { pinned, pin } = usePins()
  const query = useStore(hover, (h) => h.query) ?? pinned.query
  const key = useStore(hover, (h) => h.key) ?? pinned.key
  const labels = labelsOf(run, layer)
  const spec = {
    ...id,
    what: 'weights',
    queryStart: 0,
    queryEnd: layer.query_len,
    keyStart: 0,
    keyEnd: layer.key_len,
    outRows: layer.query_len,
    outKeys: layer.key_len,
    pool: 'mean',
  }
  const grid = useAsync<Grid>(() => run.remote.window<Grid>(spec).done, [run.remote, id.part, id.layer, id.head])
  const width = 340
  const [left, right] = [120, width - 120]
  const height = Math.max(layer.query_len, layer.key_len) * STEP + 8
  const y = (i: number) => i * STEP + STEP / 2 + 4
  const lines = useMemo(() => {
    const found: { q: number; k: number; w: number }[] = []
    if (grid.value) {
      const { values, keys } = grid.value
      for (let i = 0; i < values.length; i++)
        if (values[i] > FAINTEST) found.push({ q: Math.floor(i / keys), k: i % keys, w: values[i] })
    }
    return found.sort((a, b) => a.w - b.w)
  }, [grid.value])
  if (grid.error) return <p class="note">{grid.error}</p>
  const lit = (q: number, k: number) => (query === null && key === null) || (query !== null ? q === query : k === key)
  const weight = (q: number, k: number) => grid.value?.values[q * layer.key_len + k] ?? 0
  return (
    <svg
      class="chart lines"
      aria-busy={grid.loading}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={`Lines from each query to its keys, as thick as the weight`}
      onMouseLeave={() => hover.set({ query: null, key: null })}
    >
      {lines.map(({ q, k, w }) => (
        <line
          key={`${q} ${k}`}
          x1={left + 4}
          y1={y(q)}
          x2={right - 4}
          y2={y(k)}
          class={lit(q, k) ? 'flow' : 'flow dim'}
          stroke-width={0.6 + 3.4 * w}
          stroke-opacity={lit(q, k) ? 0.12 + 0.88 * w : 0.03}
        />
      ))}
      {labels.query.map((label, i) => (
        <g
          key={`q${i}`}
          class={`word${i === query ? ' here' : ''}`}
          onMouseEnter={() => hover.set({ query: i, key: null })}
          onClick={() => pin(i, null)}
        >
          <rect x={0} y={y(i) - STEP / 2} width={left} height={STEP} />
          <text x={left - 4} y={y(i)} dy="0.34em" text-anchor="end">
            {label}
          </text>
        </g>
      ))}
      {labels.key.map((label, i) => (
        <g
          key={`k${i}`}
          class={`word${i === key && query === null ? ' here' : ''}`}
          onMouseEnter={() => hover.set({ query: null, key: i })}
          onClick={() => pin(null, i)}
        >
          <rect
            x={right}
            y={y(i) - STEP / 2}
            width={width - right}
            height={STEP}
            class="fill"
            style={query !== null ? { fillOpacity: 0.35 * weight(query, i) } : undefined}
          />
          <text x={right + 4} y={y(i)} dy="0.34em">
            {label}
          </text>
          {query !== null && weight(query, i) >= 0.05 && (
            <text class="quiet" x={width - 4} y={y(i)} dy="0.34em" text-anchor="end">
              {number(weight(query, i))}
            </text>
          )}
        </g>
      ))}
    </svg>
  )
}
