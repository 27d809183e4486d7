/** A query as a search: keys ranked as in a database, with what made each score. */
import { useMemo } from 'preact/hooks'
import type { Products, RowOf } from '../data/engine'
import type { HeadId } from '../data/run'
import type { Columns } from '../data/tables'
import { Note, Panel } from './controls'
import { grouped, number, tickNumber } from './format'
import { labelsOf, useAsync, useCurrent, useShared, type RunView } from './model'
import { usePins } from './pins'
import { useStore } from './store'
import { niceTicks } from './scatter'

const SHOWN = 40

/**
 * ‖v‖ of every key in a run that does not keep it, from what a key gave by weight and by length: Σ w‖v‖ / Σ w.
 * Absent where the run did not measure that either.
 */
export function valueNorms(keys: Columns | null): Float64Array | null {
  const given = keys?.value_received as Float64Array | undefined
  const received = keys?.received as Float64Array | undefined
  return given && received ? given.map((length, i) => (received[i] > 0 ? length / received[i] : NaN)) : null
}

interface Known {
  norms: ArrayLike<number> | null
}

async function normsOf(run: RunView, id: HeadId): Promise<Known> {
  const kept = await run.remote.call<Float32Array | null>('valueNorms', id)
  return { norms: kept ?? valueNorms(await run.remote.call<Columns | null>('columns', 'key', id)) }
}

export function Inspector() {
  const { hover } = useShared()
  const { run, id, layer } = useCurrent()!
  const { pinned, pin } = usePins()
  const hovered = useStore(hover, (h) => h.query)
  const query = pinned.query ?? hovered
  const labels = labelsOf(run, layer)
  const head = [run.remote, id.part, id.layer, id.head] as const
  const row = useAsync<RowOf>(() => (query === null ? null : run.remote.call('row', id, query)), [...head, query])
  const some = query !== null
  const known = useAsync<Known>(() => (some ? normsOf(run, id) : null), [...head, some])
  const norms = known.value?.norms ?? null
  const ranked = useMemo(() => {
    if (!row.value) return []
    const { weights } = row.value
    return Array.from(weights, (_, i) => i)
      .filter((i) => weights[i] > 0)
      .sort((a, b) => weights[b] - weights[a] || a - b)
  }, [row.value])
  const key = pinned.key ?? ranked[0] ?? null
  const rest = row.value ? ranked.slice(SHOWN).reduce((sum, i) => sum + row.value!.weights[i], 0) : 0

  return (
    <Panel
      name="Query"
      busy={row.loading || known.loading}
      stale={row.loading || known.loading}
      title={
        query === null ? (
          'Query'
        ) : (
          <>
            Query{' '}
            <b>
              <bdi>{labels.query[query]}</bdi>
            </b>
          </>
        )
      }
      class="inspector"
      table={() => ({
        columns: [
          'rank',
          'position',
          'key',
          'raw_score',
          'score',
          'weight',
          ...(norms ? ['value_norm', 'weight_times_norm'] : []),
        ],
        rows: ranked.map((i, rank) => [
          rank + 1,
          i + layer.key_offset,
          labels.key[i],
          row.value!.raw[i],
          row.value!.scores[i],
          row.value!.weights[i],
          ...(norms ? [norms[i], norms[i] * row.value!.weights[i]] : []),
        ]),
      })}
    >
      {query === null ? (
        <p class="quiet">
          Pin a query in the map or in the text: the query searches, every key is an entry of the index, and its weight
          says how much of the entry’s value is read.
        </p>
      ) : (
        <>
          <div class="scroll ranked" tabIndex={0} role="region" aria-label="Keys ranked by weight">
            <table>
              <thead>
                <tr>
                  <th scope="col" class="text">
                    key
                  </th>
                  <th scope="col" title="position in the text">
                    at
                  </th>
                  <th scope="col">q·k</th>
                  <th scope="col">score</th>
                  <th scope="col">weight</th>
                  {norms && (
                    <th scope="col" title="length of the value">
                      ‖v‖
                    </th>
                  )}
                  {norms && (
                    <th scope="col" title="weight × length of the value">
                      w‖v‖
                    </th>
                  )}
                </tr>
              </thead>
              <tbody>
                {ranked.slice(0, SHOWN).map((i) => (
                  <tr
                    key={i}
                    aria-current={i === key}
                    onMouseEnter={() => hover.set({ query, key: i })}
                    onMouseLeave={() => hover.set({ query: null, key: null })}
                  >
                    <th scope="row" class="text">
                      <button type="button" class="link" onClick={() => pin(null, i)}>
                        <bdi>{labels.key[i]}</bdi>
                      </button>
                    </th>
                    <td>{i + layer.key_offset}</td>
                    <td>{number(row.value!.raw[i])}</td>
                    <td>{number(row.value!.scores[i])}</td>
                    <td class="bar">
                      <i style={{ width: `${100 * row.value!.weights[i]}%` }} />
                      {number(row.value!.weights[i])}
                    </td>
                    {norms && <td>{number(norms[i])}</td>}
                    {norms && <td>{number(norms[i] * row.value!.weights[i])}</td>}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {ranked.length > SHOWN && (
            <p class="quiet">
              {grouped(ranked.length - SHOWN)} more keys share {number(rest)}; the CSV holds all.
            </p>
          )}
          {known.value && !norms && row.value && (
            <p class="quiet">This run does not hold the lengths of the values; a new look at the text keeps them.</p>
          )}
          {row.value && ranked.length === 0 && <p class="quiet">This query may attend to nothing.</p>}
          {row.error && <Note>{row.error}</Note>}
          {key !== null && row.value && <Dimensions query={query} value={key} />}
        </>
      )}
    </Panel>
  )
}

/** The products q ⊙ k of one pair, dimension by dimension; they sum to the raw score. */
function Dimensions({ query, value: key }: { query: number; value: number }) {
  const { run, id, layer } = useCurrent()!
  const labels = labelsOf(run, layer)
  const pair = useAsync<Products>(
    () => run.remote.call('pair', id, query, key),
    [run.remote, id.part, id.layer, id.head, query, key],
  )
  if (!pair.value) return <div aria-busy={pair.loading} />
  const products = Array.from(pair.value.query, (q, d) => q * pair.value!.key[d])
  const sum = products.reduce((a, b) => a + b, 0)
  const width = 360
  const height = 96
  const low = Math.min(0, ...products)
  const high = Math.max(0, ...products)
  const y = (v: number) => 8 + ((high - v) / (high - low || 1)) * (height - 16)
  const step = (width - 34) / products.length
  return (
    <figure class="dimensions" aria-busy={pair.loading}>
      <figcaption>
        <bdi>{labels.query[query]}</bdi> ⊙ <bdi>{labels.key[key]}</bdi> by dimension: sum {number(sum)}, scaled{' '}
        {number(sum * layer.scale)}
      </figcaption>
      <svg
        class="chart"
        viewBox={`0 0 ${width} ${height}`}
        role="img"
        aria-label={`Products of query and key in ${products.length} dimensions, sum ${number(sum)}`}
      >
        {niceTicks(low, high, 3).map((v) => (
          <g key={v} transform={`translate(0 ${y(v)})`}>
            <line class={v === 0 ? 'axis' : 'rule'} x1={34} x2={width} />
            <text x={30} dy="0.34em" text-anchor="end">
              {tickNumber(v)}
            </text>
          </g>
        ))}
        {products.map((v, d) => (
          <rect
            key={d}
            class={v < 0 ? 'bar-less' : 'bar-more'}
            x={34 + d * step + step * 0.12}
            width={step * 0.76}
            y={Math.min(y(v), y(0))}
            height={Math.max(0.5, Math.abs(y(v) - y(0)))}
          >
            <title>{`dimension ${d}: ${number(pair.value!.query[d])} × ${number(pair.value!.key[d])} = ${number(v)}`}</title>
          </rect>
        ))}
      </svg>
    </figure>
  )
}
