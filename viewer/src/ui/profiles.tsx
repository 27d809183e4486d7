/** How far one head looks, how sharply along the text, and who receives. */
import { useState } from 'preact/hooks'
import { headName } from '../data/run'
import type { Profile } from '../data/profile'
import type { Columns } from '../data/tables'
import { Chart, type Series } from './chart'
import { Note, Panel } from './controls'
import { number } from './format'
import { labelsOf, useAsync, useCurrent, useShared } from './model'
import { usePins } from './pins'
import { useStore } from './store'

/** A key is a sink where its mean weight over the rows that may see it is above this (Gu et al. 2024). */
const SINK = 0.3
const MOST_MARKS = 4

export function Profiles() {
  const { hover } = useShared()
  const { run, id, layer } = useCurrent()!
  const { pin } = usePins()
  const depends = [run.remote, id.part, id.layer, id.head]
  const distance = useAsync<Profile>(() => run.remote.call('profile', 'distance', id), depends)
  const query = useAsync<Profile>(() => run.remote.call('profile', 'query', id), depends)
  const key = useAsync<Profile>(() => run.remote.call('profile', 'key', id), depends)
  const overQuery = useStore(hover, (h) => h.query)
  const overKey = useStore(hover, (h) => h.key)
  const [at, setAt] = useState<number | null>(null)
  const labels = labelsOf(run, layer)
  const error = distance.error ?? query.error ?? key.error
  const loading = distance.loading || query.loading || key.loading
  const [byDistances, queryColumns, keyColumns] = [distance, query, key].map((table) => table.value?.columns ?? null)
  const pooled = Math.max(query.value?.pooled ?? 1, key.value?.pooled ?? 1)
  const entropy = queryColumns?.entropy as Float64Array | undefined
  const received = keyColumns?.received_mean as Float64Array | undefined
  const index = (position: number | null, offset: number, length: number) =>
    position === null || position < offset || position >= offset + length ? null : position - offset

  return (
    <Panel
      name="Profiles"
      busy={loading}
      stale={loading}
      title={
        <>
          Profiles of head <b>{headName(id, run.parts.length)}</b>
        </>
      }
      class="profiles"
      table={() => tableOf(keyColumns, queryColumns, labels, layer.key_offset)}
    >
      {error && <Note>{error}</Note>}
      {pooled > 1 && (
        <Note>
          To stay within its size, this file holds the profiles of this head pooled: along the text the lowest and the
          highest of about {Math.round(pooled)} positions, by distance the mean of each eighth of an octave.
        </Note>
      )}
      {byDistances && (
        <figure>
          <figcaption>
            <h3>Weight by distance</h3>
            <span class="quiet">
              mean over the pairs of each distance that may attend
              {at !== null && `; at ${at}: ${told(byDistances, at)}`}
            </span>
          </figcaption>
          <Chart
            label="Mean weight by distance, both axes logarithmic"
            series={byDistance(byDistances)}
            logX
            logY
            xName="distance in tokens"
            yName="mean weight"
            cursor={at}
            onPoint={setAt}
          />
          {byDistance(byDistances).length > 1 && (
            <ul class="kinds">
              <li>
                <i class="main" />
                looking back
              </li>
              <li>
                <i class="second" />
                looking ahead
              </li>
            </ul>
          )}
        </figure>
      )}
      {!byDistances && !distance.loading && !distance.error && (
        <Note>No distances: queries and keys belong to different texts, or the run did not measure them.</Note>
      )}
      {entropy && (
        <figure>
          <figcaption>
            <h3>Entropy along the text</h3>
            <span class="quiet">
              how widely each query attends
              {overQuery !== null &&
                pooled === 1 &&
                `; ${labels.query[overQuery]}: ${number(valueAt(queryColumns!, 'entropy', overQuery + layer.query_offset))} nats`}
            </span>
          </figcaption>
          <Chart
            label="Entropy of each query"
            series={[{ x: queryColumns!.position as Float64Array, y: entropy }]}
            xName="query position"
            yName="nats"
            cursor={overQuery === null ? null : overQuery + layer.query_offset}
            onPoint={(x) => hover.set({ query: index(x, layer.query_offset, layer.query_len), key: null })}
            onPick={(x) => pin(index(x, layer.query_offset, layer.query_len), null)}
          />
        </figure>
      )}
      {received && (
        <figure>
          <figcaption>
            <h3>Received along the text</h3>
            <span class="quiet">
              mean weight of each key over the rows that may see it; sinks are above {SINK}
              {overKey !== null &&
                pooled === 1 &&
                `; ${labels.key[overKey]}: ${number(valueAt(keyColumns!, 'received_mean', overKey + layer.key_offset))}`}
            </span>
          </figcaption>
          <Chart
            label="Weight that each key receives"
            series={[{ x: keyColumns!.position as Float64Array, y: received }]}
            marks={sinks(keyColumns!, labels.key, layer.key_offset)}
            xName="key position"
            yName="mean weight"
            cursor={overKey === null ? null : overKey + layer.key_offset}
            onPoint={(x) => hover.set({ query: null, key: index(x, layer.key_offset, layer.key_len) })}
            onPick={(x) => pin(null, index(x, layer.key_offset, layer.key_len))}
          />
        </figure>
      )}
      {loading && <p class="quiet">Reading…</p>}
    </Panel>
  )
}

export function byDistance(columns: Columns): Series[] {
  const distance = columns.distance as Float64Array
  const mean = columns.distance_mean as Float64Array | undefined
  if (!mean) return []
  const pick = (sign: number): Series => {
    const found: [number, number][] = []
    distance.forEach((d, i) => d * sign > 0 && found.push([d * sign, mean[i]]))
    found.sort((a, b) => a[0] - b[0])
    return {
      x: found.map((p) => p[0]),
      y: found.map((p) => p[1]),
      kind: sign > 0 ? 'main' : 'second',
      name: sign > 0 ? 'back' : 'ahead',
    }
  }
  return [pick(1), pick(-1)].filter((series) => series.x.length > 0)
}

function told(columns: Columns, distance: number): string {
  const at = (sign: number) => (columns.distance as Float64Array).indexOf(sign * distance)
  const mean = columns.distance_mean as Float64Array | undefined
  const [back, ahead] = [at(1), at(-1)]
  return (
    [back >= 0 && mean ? `${number(mean[back])} back` : '', ahead >= 0 && mean ? `${number(mean[ahead])} ahead` : '']
      .filter(Boolean)
      .join(', ') || 'no pairs'
  )
}

function valueAt(columns: Columns, name: string, position: number): number {
  const at = (columns.position as Float64Array).indexOf(position)
  return at < 0 ? NaN : (columns[name] as Float64Array)[at]
}

/** Keys above the threshold that many rows may see: a key that only itself may see is no sink. */
export function sinks(columns: Columns, labels: string[], offset: number): { x: number; y: number; text: string }[] {
  const mean = columns.received_mean as Float64Array
  const rows = columns.rows_that_may_see as Float64Array | undefined
  const most = rows ? rows.reduce((a, b) => Math.max(a, b), 0) : 1
  return Array.from(mean, (y, i) => ({ x: (columns.position as Float64Array)[i], y, seen: rows ? rows[i] : 1 }))
    .filter(({ y, seen }) => y > SINK && 2 * seen >= most)
    .sort((a, b) => b.y - a.y)
    .slice(0, MOST_MARKS)
    .map(({ x, y }) => ({ x, y, text: `${labels[x - offset]} ${number(y)}` }))
}

function tableOf(keys: Columns | null, queries: Columns | null, labels: { key: string[] }, offset: number) {
  const byPosition = new Map<number, number>()
  const positions = (queries?.position as Float64Array | undefined) ?? new Float64Array()
  positions.forEach((position, i) => byPosition.set(position, i))
  const numeric = (columns: Columns | null) =>
    Object.entries(columns ?? {}).filter(
      (e): e is [string, Float64Array] => e[1] instanceof Float64Array && !['layer', 'head', 'position'].includes(e[0]),
    )
  const all = (keys?.position as Float64Array | undefined) ?? positions
  return {
    columns: ['position', 'token', ...numeric(keys).map((c) => c[0]), ...numeric(queries).map((c) => c[0])],
    rows: Array.from(all, (position, i) => {
      const row = byPosition.get(position)
      return [
        position,
        labels.key[position - offset] ?? '',
        ...numeric(keys).map((c) => c[1][i]),
        ...numeric(queries).map((c) => (row === undefined ? NaN : c[1][row])),
      ]
    }),
  }
}
