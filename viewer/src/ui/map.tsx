/** One head's matrix, from the whole to single cells. */
import { useMemo, useState } from 'preact/hooks'
import { LEFT_OUT } from '../data/inside'
import { headName } from '../data/run'
import { domainOf, palette } from './colour'
import { Legend, Note, Panel } from './controls'
import { number } from './format'
import { zoomed } from './gestures'
import { coveringOf, largestOf, layersOf, useGrids, wholeOf } from './grids'
import { Matrix } from './matrix'
import { labelsOf, useCurrent, useShared, useState_, useTheme } from './model'
import { Figure, Pair, Scales, usePair, usePointed, valueOf, Veiled, veiled } from './readout'
import type { Layered } from './renderer'
import { fitView, isLog } from './state'
import { usePins, viewIn } from './pins'

export function MapPanel() {
  const { state } = useShared()
  const theme = useTheme()
  const { run, id, layer } = useCurrent()!
  const view = viewIn(
    layer,
    useState_((s) => s.view),
  )
  const pool = useState_((s) => s.pool)
  const colour = useState_((s) => s.colour)
  const log = isLog(colour, layer.key_len)
  const [pixels, setPixels] = useState({ width: 0, height: 0 })
  const grids = useGrids(run, id, layer, view, pool, pixels)
  const labels = labelsOf(run, layer)
  const { pinned, pin } = usePins()
  const whole = wholeOf(layer)
  const covering = coveringOf(grids, view ?? whole)
  const largest = useMemo(
    () => largestOf(covering ? [covering] : layersOf(grids)),
    [covering, grids.base, grids.detail],
  )
  const domain = domainOf(largest, log)
  const veils = useMemo(() => veiled(covering ? [covering] : grids.base), [covering, grids.base])
  const layers = layersOf(grids)
  const zoom = (factor: number) =>
    state.set({ view: fitView(zoomed(view ?? whole, factor, 0.5, 0.5), layer.query_len, layer.key_len) })
  const pooledBy = Math.max(grids.cell.queries, grids.cell.keys)

  return (
    <Panel
      name="Map"
      busy={grids.busy}
      stale={grids.stale}
      class="map-panel"
      title={
        <>
          Head <b>{headName(id, run.parts.length)}</b>
        </>
      }
      tools={
        <>
          <Scales exact={grids.exact} />
          <span class="zoom">
            <button type="button" class="icon" aria-label="Zoom out" title="Zoom out (−)" onClick={() => zoom(2)}>
              −
            </button>
            <button
              type="button"
              class="icon"
              aria-label="Show the whole"
              title="Show the whole (0)"
              disabled={view === null}
              onClick={() => state.set({ view: null })}
            >
              <svg viewBox="0 0 16 16" width="12" height="12" aria-hidden="true">
                <path d="M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4" fill="none" stroke="currentColor" stroke-width="1.6" />
              </svg>
            </button>
            <button type="button" class="icon" aria-label="Zoom in" title="Zoom in (+)" onClick={() => zoom(0.5)}>
              +
            </button>
          </span>
        </>
      }
      table={() => {
        const offsets = { query: layer.query_offset, key: layer.key_offset }
        return covering ? tableOf(covering, labels, offsets) : listOf(grids.base, offsets)
      }}
    >
      <Matrix
        name={`Attention weights of head ${headName(id, run.parts.length)}`}
        rows={layer.query_len}
        keys={layer.key_len}
        view={view}
        grids={layers}
        domain={domain}
        labels={labels}
        offsets={{ query: layer.query_offset, key: layer.key_offset }}
        pinned={pinned}
        onView={(next) => state.set({ view: next })}
        onPin={pin}
        onSize={setPixels}
      />
      <Readout grids={layers} exact={grids.why === null} cell={grids.cell} />
      <div class="under">
        <p class="status" data-exact={grids.exact} data-busy={grids.busy}>
          {layers.length === 0
            ? '\u00a0'
            : grids.exact
              ? 'Exact: every cell is one weight.'
              : `Each cell is the ${pool} over ${size(grids.cell.queries, 'query', 'queries')} × ${size(grids.cell.keys, 'key', 'keys')}${grids.why === null && pooledBy > 1 ? '; zoom in for single weights' : ''}.`}
        </p>
        <span class="legends">
          <Veiled {...veils} />
          <Legend
            table={palette('sequential', theme)}
            low={log ? `≤ ${number(domain.low)}` : '0'}
            high={number(domain.high)}
          />
        </span>
      </div>
      {grids.why !== null && (
        <Note>
          Exact zoom is off for this head: {grids.why}.
          {grids.why !== LEFT_OUT && ' The pooled map and the tables are exact all the same.'}
        </Note>
      )}
      {grids.error && <Note alert>{grids.error}</Note>}
    </Panel>
  )
}

function size(cells: number, one: string, several: string): string {
  return cells === 1
    ? `1 ${one}`
    : `${Number.isInteger(cells) ? cells : `about ${cells.toFixed(1).replace('.0', '')}`} ${several}`
}

export function tableOf(
  grid: Layered,
  labels: { query: string[]; key: string[] },
  offsets: { query: number; key: number },
) {
  const exact = grid.rows === grid.q1 - grid.q0 && grid.keys === grid.k1 - grid.k0
  const name = (label: string[], at: number, offset: number) =>
    exact ? `${at + offset} ${label[at]}` : String(Math.round(at) + offset)
  const place = (from: number, to: number, parts: number, i: number) => from + Math.floor(((to - from) * i) / parts)
  return {
    columns: [
      'query',
      ...Array.from({ length: grid.keys }, (_, j) =>
        name(labels.key, place(grid.k0, grid.k1, grid.keys, j), offsets.key),
      ),
    ],
    rows: Array.from({ length: grid.rows }, (_, i) => [
      name(labels.query, place(grid.q0, grid.q1, grid.rows, i), offsets.query),
      ...grid.values.subarray(i * grid.keys, (i + 1) * grid.keys),
    ]),
  }
}

/** The cells of a pooled map, one a row: where each begins and ends, and its value. */
export function listOf(grids: Layered[], offsets: { query: number; key: number }) {
  const rows: (string | number)[][] = []
  for (const grid of grids) {
    const [height, width] = [(grid.q1 - grid.q0) / grid.rows, (grid.k1 - grid.k0) / grid.keys]
    grid.values.forEach((value, i) => {
      const query = grid.q0 + Math.floor(i / grid.keys) * height + offsets.query
      const key = grid.k0 + (i % grid.keys) * width + offsets.key
      rows.push([query, query + height, key, key + width, value])
    })
  }
  return { columns: ['query_start', 'query_stop', 'key_start', 'key_stop', 'weight'], rows }
}

/** What the cursor is on: the pair's weight, score and distance, and what its cell shows. */
function Readout({
  grids,
  exact,
  cell,
}: {
  grids: Layered[]
  exact: boolean
  cell: { queries: number; keys: number }
}) {
  const { run, id } = useCurrent()!
  const { query, key } = usePointed()
  const pair = usePair(run, id, query, key, exact)
  if (query === null || key === null) return <p class="readout quiet">Point at a cell; a click pins it.</p>
  const shown = valueOf(grids, query, key)
  const pooled = cell.queries > 1 || cell.keys > 1
  return (
    <Pair query={query} key_={key} hidden={pair.value?.hidden ?? Object.is(shown, -0)} busy={pair.loading}>
      {pair.told && <Figure name="weight" value={pair.value?.weight} />}
      {pair.told && <Figure name="score" value={pair.value?.score} />}
      {pooled && shown !== null && <Figure name="cell" value={shown} />}
    </Pair>
  )
}
