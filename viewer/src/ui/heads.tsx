/** All heads at once: a grid by layer and head, small maps, a scatter of two statistics, or a table. */
import { useMemo, useState } from 'preact/hooks'
import { headName } from '../data/run'
import { KIND_COLOURS, palette } from './colour'
import { Choice, Legend, Panel, Select } from './controls'
import { number } from './format'
import { HeadGrid } from './headgrid'
import { HeadTable } from './headtable'
import { useCurrent, useShared, useState_, useTheme } from './model'
import { Scatter } from './scatter'
import { KINDS, kindsOf, measures, rangeOf } from './statistics'

/** Order, what it is called, and what it is called where types are ordered. */
const ORDERS = [
  ['place', 'by layer and head', 'by layer and head'],
  ['layer', 'sorted in each layer', 'by type in each layer'],
  ['largest', 'largest first', 'by type'],
  ['smallest', 'smallest first', ''],
] as const

export function Heads() {
  const { state } = useShared()
  const theme = useTheme()
  const current = useCurrent()!
  const view = useState_((s) => s.headView)
  const statistic = useState_((s) => s.statistic)
  const x = useState_((s) => s.x)
  const y = useState_((s) => s.y)
  const order = useState_((s) => s.order)
  const [told, setTold] = useState<number | null>(null)
  const { run } = current
  const all = measures(run)
  const named = (name: string) => all.find((m) => m.name === name) ?? all[0]
  const kinds = kindsOf(run)
  const byType = statistic === 'type' && run.types !== null
  const chosen = named(statistic)
  const [low, high] = rangeOf(chosen.values)
  const options = all.map((m) => [m.name, m.label] as const)
  const here =
    told ??
    run.opened.heads.findIndex(
      (h) => h.part === current.id.part && h.layer === current.id.layer && h.head === current.id.head,
    )
  const places = useMemo(() => kinds.map((kind) => -Object.keys(KINDS).indexOf(kind)), [run.types])
  const shown = [...new Set(kinds)].sort((a, b) => Object.keys(KINDS).indexOf(a) - Object.keys(KINDS).indexOf(b))
  const open = (index: number) =>
    state.set({ head: run.opened.heads[index], view: sameShape(index) ? state.get().view : null })
  const sameShape = (index: number) => {
    const id = run.opened.heads[index]
    const layer = run.opened.meta.layers.find((l) => l.part === id.part && l.layer === id.layer)!
    return layer.query_len === current.layer.query_len && layer.key_len === current.layer.key_len
  }

  return (
    <Panel
      name="Heads"
      busy={!run.whole}
      title="Heads"
      class="heads"
      table={() => ({
        columns: ['part', 'layer', 'head', ...(run.types ? ['type'] : []), ...all.map((m) => m.name)],
        rows: run.opened.heads.map((id, i) => [
          id.part,
          id.layer,
          id.head,
          ...(run.types ? [run.types.types[i].join(' ')] : []),
          ...all.map((m) => m.values[i]),
        ]),
      })}
    >
      <div class="wide" data-unsaved>
        <Choice
          label="Show heads as"
          value={view}
          options={[
            ['grid', 'Grid'],
            ['maps', 'Maps'],
            ['scatter', 'Scatter'],
            ['table', 'Table'],
          ]}
          onChange={(headView) => state.set({ headView })}
        />
      </div>
      {view === 'scatter' ? (
        <div class="row">
          <Select label="across" value={named(x).name} options={options} onChange={(name) => state.set({ x: name })} />
          <Select label="up" value={named(y).name} options={options} onChange={(name) => state.set({ y: name })} />
        </div>
      ) : view === 'table' ? null : (
        <div class="row">
          {(view === 'grid' || order !== 'place') && (
            <Select
              label={view === 'grid' ? 'coloured by' : 'sorted by'}
              value={byType ? 'type' : chosen.name}
              options={run.types ? [['type', 'type'] as const, ...options] : options}
              onChange={(name) => state.set({ statistic: name })}
            />
          )}
          <Select
            label="order"
            value={order}
            options={ORDERS.filter(([name]) => !byType || name !== 'smallest').map(
              ([name, text, ofTypes]) => [name, byType ? ofTypes : text] as const,
            )}
            onChange={(name) => state.set({ order: name as typeof order })}
          />
        </div>
      )}
      {view === 'grid' || view === 'maps' ? (
        <HeadGrid
          maps={view === 'maps'}
          order={order}
          keys={byType ? places : chosen.values}
          kinds={byType && view === 'grid' ? kinds : null}
          values={chosen.values}
          range={[low, high]}
          onTell={setTold}
          onOpen={open}
        />
      ) : view === 'scatter' ? (
        <Scatter x={named(x)} y={named(y)} kinds={run.types ? kinds : null} onTell={setTold} onOpen={open} />
      ) : (
        <HeadTable all={all} kinds={run.types ? kinds : null} onOpen={open} />
      )}
      {(view === 'grid' || view === 'maps') && order !== 'place' && (
        <p class="quiet">
          {byType
            ? order === 'layer'
              ? 'Each row is a layer, its heads by type.'
              : 'All heads by type, row by row.'
            : `${order === 'layer' ? 'Each row is a layer, its heads' : 'All heads, row by row,'} by ${chosen.label}, the ${order === 'smallest' ? 'smallest' : 'largest'} first.`}
        </p>
      )}
      {view === 'grid' && !byType && (
        <Legend table={palette('sequential', theme)} low={number(low)} high={number(high)} name={chosen.unit} />
      )}
      {((view === 'grid' && byType) || (view === 'scatter' && run.types)) && (
        <ul class="kinds">
          {shown.map((kind) => (
            <li key={kind}>
              <i style={{ background: KIND_COLOURS[kind] }} />
              {KINDS[kind]}
            </li>
          ))}
        </ul>
      )}
      {view !== 'table' && here >= 0 && (
        <dl class="facts" aria-live="polite">
          <dt>{headName(run.opened.heads[here], run.parts.length)}</dt>
          <dd>{run.types?.types[here].map((type) => KINDS[type]).join(', ') || (run.types ? KINDS.none : '')}</dd>
          {all
            .filter((m) => ['entropy', 'max_weight', 'mean_distance', 'previous', 'first'].includes(m.name))
            .map((m) => (
              <div key={m.name}>
                <dt>{m.label}</dt>
                <dd>{number(m.values[here])}</dd>
              </div>
            ))}
        </dl>
      )}
    </Panel>
  )
}
