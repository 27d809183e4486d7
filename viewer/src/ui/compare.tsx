/** Two heads, or one head in two runs of the same text: side by side, and as a difference. */
import { useMemo, useState } from 'preact/hooks'
import { headName, type HeadId, type Layer } from '../data/run'
import { domainOf, palette } from './colour'
import { Legend, Note, Panel, Select } from './controls'
import { number } from './format'
import { coveringOf, largestOf, layersOf, useGrids, wholeOf } from './grids'
import { listOf, tableOf } from './map'
import { Matrix } from './matrix'
import { labelsOf, layerOf, runOf, useCurrent, useShared, useState_, useTheme, type RunView } from './model'
import { Figure, Pair, Scales, usePair, usePointed, valueOf, Veiled, veiled } from './readout'
import { pinsIn, usePins, viewIn } from './pins'
import type { Layered } from './renderer'
import { isLog } from './state'
import { labelOf } from './statistics'
import { useStore } from './store'

export function Compare() {
  const { state, runs } = useShared()
  const current = useCurrent()!
  const known = useStore(runs, (value) => value)
  const { list } = known
  const otherRun = useState_((s) => s.otherRun)
  const otherHead = useState_((s) => s.otherHead)
  const run = runOf(known, otherRun)
  if (!run) return <p class="quiet">Reading the other run…</p>
  const fallback = run === current.run ? nextHead(run, current.id) : current.id
  const wanted = otherHead ?? fallback
  const layer = layerOf(run, wanted)
  const id = layer?.heads.includes(wanted.head) ? wanted : run.opened.heads[0]
  const why = whyNot(current, run, layerOf(run, id)!)
  const name = (r: RunView, h: HeadId) => headName(h, r.parts.length)
  return (
    <>
      <div class="row compare-choice">
        <span>
          Head <b>{name(current.run, current.id)}</b>
          {list.length > 1 && ` of ${current.run.name}`} against
        </span>
        {list.length > 1 && (
          <Select
            label="run"
            value={String(run.order)}
            options={list.map((r) => [String(r.order), r.name] as const)}
            onChange={(i) => state.set({ otherRun: Number(i), otherHead: null })}
          />
        )}
        <Select
          label="head"
          value={name(run, id)}
          options={run.opened.heads.map((h) => [name(run, h), name(run, h)] as const)}
          onChange={(text) => state.set({ otherHead: run.opened.heads.find((h) => name(run, h) === text)! })}
        />
      </div>
      {why ? <Note>{why}</Note> : <Both otherRun={run} other={id} />}
    </>
  )
}

function nextHead(run: RunView, id: HeadId): HeadId {
  const { heads } = run.opened
  const at = heads.findIndex((h) => h.part === id.part && h.layer === id.layer && h.head === id.head)
  return heads[(at + 1) % heads.length]
}

function whyNot(current: { run: RunView; layer: Layer }, run: RunView, layer: Layer): string | null {
  const [a, b] = [current.run.opened, run.opened]
  if (a.meta.text.sha256 !== b.meta.text.sha256)
    return `${current.run.name} and ${run.name} are runs of different texts.`
  if (a.tokens.count !== b.tokens.count || a.tokens.start.some((v, i) => v !== b.tokens.start[i])) {
    return `${current.run.name} and ${run.name} cut the text into different tokens: their matrices have no common rows.`
  }
  const [p, q] = [current.layer, layer]
  if (
    p.query_len !== q.query_len ||
    p.key_len !== q.key_len ||
    p.query_offset !== q.query_offset ||
    p.key_offset !== q.key_offset
  ) {
    return 'The two heads have matrices of different shapes.'
  }
  return null
}

function Both({ otherRun, other }: { otherRun: RunView; other: HeadId }) {
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
  const { pinned, pin } = usePins()
  const [pixels, setPixels] = useState({ width: 0, height: 0 })
  const otherLayer = layerOf(otherRun, other)!
  const a = useGrids(run, id, layer, view, pool, pixels)
  const b = useGrids(otherRun, other, otherLayer, view, pool, pixels)
  const [p, q] = [a, b].map((grids) => coveringOf(grids, view ?? wholeOf(layer)))
  const [left, right] = p && q ? [[p], [q]] : [layersOf(a), layersOf(b)]
  const drawn = [a.base, a.detail, b.base, b.detail, p && q]
  const difference = useMemo(() => {
    const all = subtract(left, right)
    return all.length > 0 ? all : subtract(a.base, b.base)
  }, drawn)
  const largest = useMemo(() => largestOf([...left, ...right]), drawn)
  const apart = useMemo(
    () => largestOf(difference.map((grid) => ({ ...grid, values: grid.values.map(Math.abs) }))),
    [difference],
  )
  const domain = domainOf(largest, log)
  const veils = useMemo(() => veiled([...left, ...right]), drawn)
  const high = domainOf(apart, false).high
  const common = {
    rows: layer.query_len,
    keys: layer.key_len,
    view,
    offsets: { query: layer.query_offset, key: layer.key_offset },
    pinned: pinsIn(
      layer,
      pinned.query === null ? null : pinned.query + layer.query_offset,
      pinned.key === null ? null : pinned.key + layer.key_offset,
    ),
    onView: (next: typeof view) => state.set({ view: next }),
    onPin: pin,
    compact: true,
  }
  const title = (r: RunView, h: HeadId) =>
    r === run && otherRun === run ? headName(h, r.parts.length) : `${headName(h, r.parts.length)} · ${r.name}`
  return (
    <Panel
      name="Compare"
      busy={a.busy || b.busy}
      stale={a.stale || b.stale}
      title="Compare"
      class="compare"
      tools={<Scales exact={a.exact && b.exact} />}
      table={() =>
        p && q
          ? tableOf(difference[0], labelsOf(run, layer), common.offsets)
          : listOf(subtract(a.base, b.base), common.offsets)
      }
    >
      <div class="side-by-side">
        <figure>
          <figcaption>
            <b>{title(run, id)}</b>
          </figcaption>
          <Matrix
            {...common}
            name={`Head ${title(run, id)}`}
            labels={labelsOf(run, layer)}
            grids={layersOf(a)}
            domain={domain}
            onSize={setPixels}
          />
        </figure>
        <figure>
          <figcaption>
            <b>{title(otherRun, other)}</b>
          </figcaption>
          <Matrix
            {...common}
            name={`Head ${title(otherRun, other)}`}
            labels={labelsOf(otherRun, otherLayer)}
            grids={layersOf(b)}
            domain={domain}
          />
        </figure>
        <figure>
          <figcaption>
            <b>{title(run, id)}</b> − <b>{title(otherRun, other)}</b>
          </figcaption>
          <Matrix
            {...common}
            name="Difference"
            labels={labelsOf(run, layer)}
            grids={difference}
            domain={{ low: -high, high, log: false }}
            kind="diverging"
          />
        </figure>
        <div class="legends">
          <Legend
            table={palette('sequential', theme)}
            low={log ? `≤ ${number(domain.low)}` : '0'}
            high={number(domain.high)}
            name="weight"
          />
          <Legend table={palette('diverging', theme)} low={number(-high)} high={number(high)} name="difference" />
          <Veiled {...veils} />
        </div>
      </div>
      <Readout run={run} id={id} otherRun={otherRun} other={other} grids={[left, right]} exact={!a.why && !b.why} />
      <Means run={run} id={id} otherRun={otherRun} other={other} />
      {(a.error ?? b.error) && <Note alert>{a.error ?? b.error}</Note>}
      {(a.why ?? b.why) && <Note>Exact zoom is off: {a.why ?? b.why}.</Note>}
    </Panel>
  )
}

/** What the cursor is on, in both heads. */
function Readout(props: {
  run: RunView
  id: HeadId
  otherRun: RunView
  other: HeadId
  grids: [Layered[], Layered[]]
  exact: boolean
}) {
  const { query, key } = usePointed()
  const a = usePair(props.run, props.id, query, key, props.exact)
  const b = usePair(props.otherRun, props.other, query, key, props.exact)
  if (query === null || key === null) return <p class="readout quiet">Point at a cell; a click pins it.</p>
  const cells = props.grids.map((grids) => valueOf(grids, query, key))
  const exact = a.told && b.told
  const [p, q] = exact ? [a.value?.weight, b.value?.weight] : cells
  const hidden = a.value && b.value ? a.value.hidden && b.value.hidden : cells.every((value) => Object.is(value, -0))
  const what = exact ? 'weight' : 'cell'
  return (
    <Pair query={query} key_={key} hidden={hidden} busy={a.loading || b.loading}>
      {p !== null && q !== null && (
        <>
          <Figure name={what} value={p} />
          <Figure name={`other ${what}`} value={q} />
          <Figure name="difference" value={p === undefined || q === undefined ? undefined : p - q} />
        </>
      )}
    </Pair>
  )
}

/** a − b where both cover the same windows in the same cells; nothing meanwhile. */
export function subtract(a: Layered[], b: Layered[]): Layered[] {
  const same = (p: Layered, q: Layered) =>
    p.rows === q.rows && p.keys === q.keys && p.q0 === q.q0 && p.q1 === q.q1 && p.k0 === q.k0 && p.k1 === q.k1
  if (a.length !== b.length || !a.every((grid, i) => same(grid, b[i]))) return []
  // −0 − −0 is 0: what the mask hides in both stays marked
  const minus = (v: number, w: number) => (Object.is(v, -0) && Object.is(w, -0) ? -0 : v - w)
  return a.map((grid, i) => ({ ...grid, values: grid.values.map((v, j) => minus(v, b[i].values[j])) }))
}

const SHOWN = ['entropy', 'max_weight', 'concentration', 'mean_distance', 'saturation']

function Means(props: { run: RunView; id: HeadId; otherRun: RunView; other: HeadId }) {
  const at = (r: RunView, h: HeadId) =>
    r.opened.heads.findIndex((x) => x.part === h.part && x.layer === h.layer && x.head === h.head)
  const [i, j] = [at(props.run, props.id), at(props.otherRun, props.other)]
  const rows = SHOWN.map((name) => ({
    name,
    a: props.run.opened.headTable[name]?.[i],
    b: props.otherRun.opened.headTable[name]?.[j],
  })).filter((r) => r.a !== undefined && r.b !== undefined)
  return (
    <table class="means">
      <thead>
        <tr>
          <th class="text">mean over queries</th>
          <th scope="col">{headName(props.id)}</th>
          <th scope="col">{headName(props.other)}</th>
          <th scope="col">difference</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ name, a, b }) => (
          <tr key={name}>
            <th scope="row" class="text">
              {labelOf(name)}
            </th>
            <td>{number(a)}</td>
            <td>{number(b)}</td>
            <td>{number(a - b)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
