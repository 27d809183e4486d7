/** The line under a map: what the cursor is on, both tokens, and the exact numbers of the pair. */
import type { ComponentChildren } from 'preact'
import type { Cell } from '../data/engine'
import type { HeadId } from '../data/run'
import { VEILS } from './colour'
import { Choice } from './controls'
import { number } from './format'
import { labelsOf, useAsync, useCurrent, useShared, useState_, useTheme, type RunView } from './model'
import { usePins } from './pins'
import type { Layered } from './renderer'
import { isLog } from './state'
import { useStore } from './store'

/** The pair under the pointer or the keyboard's cursor, else the pinned one: indices of the matrix. */
export function usePointed(): { query: number | null; key: number | null } {
  const { hover } = useShared()
  const { pinned } = usePins()
  return {
    query: useStore(hover, (h) => h.query) ?? pinned.query,
    key: useStore(hover, (h) => h.key) ?? pinned.key,
  }
}

/** The exact numbers of one pair in a head, never another's; `told`: whether there are any, or will be. */
export function usePair(run: RunView, id: HeadId, query: number | null, key: number | null, exact: boolean) {
  const both = query !== null && key !== null
  const { value, error, loading } = useAsync<Cell | null>(
    () => (both && exact ? run.remote.call('cell', id, query, key) : null),
    [run.remote, id.part, id.layer, id.head, both ? query : -1, both ? key : -1, exact],
  )
  return { value: loading ? null : value, told: both && exact && error === null, loading }
}

/** Both tokens and their distance, with what a map has to tell between them. */
export function Pair(props: {
  query: number
  key_: number
  hidden: boolean
  busy: boolean
  children: ComponentChildren
}) {
  const { run, layer } = useCurrent()!
  const labels = labelsOf(run, layer)
  return (
    <p class="readout" aria-live="polite" aria-busy={props.busy}>
      <span class="pair">
        <bdi>{labels.query[props.query]}</bdi> → <bdi>{labels.key[props.key_]}</bdi>
      </span>
      {props.hidden ? <span>hidden by the mask</span> : props.children}
      {!layer.cross && (
        <Figure name="distance" value={props.query + layer.query_offset - props.key_ - layer.key_offset} />
      )}
    </p>
  )
}

/** A number with its name, which stands there already while the number is still to come. */
export function Figure({ name, value }: { name: string; value: number | undefined }) {
  return (
    <span>
      {name} <b>{value === undefined ? '…' : number(value)}</b>
    </span>
  )
}

/** The value of the topmost grid at a pair. */
export function valueOf(grids: Layered[], query: number, key: number): number | null {
  for (const grid of [...grids].reverse()) {
    if (query < grid.q0 || query >= grid.q1 || key < grid.k0 || key >= grid.k1) continue
    const row = Math.floor(((query - grid.q0 + 0.5) / (grid.q1 - grid.q0)) * grid.rows)
    const column = Math.floor(((key - grid.k0 + 0.5) / (grid.k1 - grid.k0)) * grid.keys)
    return grid.values[row * grid.keys + column]
  }
  return null
}

/** What a cell shows and on which scale, for every map alike. `exact`: cells are single weights, there is no choice. */
export function Scales({ exact }: { exact: boolean }) {
  const { state } = useShared()
  const { layer } = useCurrent()!
  const pool = useState_((s) => s.pool)
  const log = isLog(
    useState_((s) => s.colour),
    layer.key_len,
  )
  return (
    <>
      {!exact && (
        <Choice
          label="A cell shows its"
          value={pool}
          options={[
            ['mean', 'Mean'],
            ['max', 'Max'],
          ]}
          onChange={(next) => state.set({ pool: next })}
        />
      )}
      <Choice
        label="Colour scale"
        value={log ? 'log' : 'linear'}
        options={[
          ['log', 'Log'],
          ['linear', 'Linear'],
        ]}
        onChange={(next) => state.set({ colour: next })}
      />
    </>
  )
}

/** Whether any cell in these grids is hidden by the mask, or was left out. */
export function veiled(grids: Layered[]): { hidden: boolean; missing: boolean } {
  const found = { hidden: false, missing: false }
  for (const { values } of grids) {
    for (let i = 0; i < values.length && !(found.hidden && found.missing); i++) {
      const value = values[i]
      if (value === 0) found.hidden ||= Object.is(value, -0)
      else if (Number.isNaN(value)) found.missing = true
    }
  }
  return found
}

/** What hatched and grey cells are, where there are any. */
export function Veiled({ hidden, missing }: { hidden: boolean; missing: boolean }) {
  const veils = VEILS[useTheme()]
  const css = (colour: readonly number[]) => `rgb(${colour.join(' ')})`
  return (
    <>
      {hidden && (
        <span class="veil">
          <svg width="22" height="10" aria-hidden="true">
            <rect width="22" height="10" fill={css(veils.ground)} />
            {[-4, 4, 12, 20].map((x) => (
              <path key={x} d={`M${x} 10L${x + 10} 0h2L${x + 2} 10z`} fill={css(veils.hatch)} />
            ))}
          </svg>
          hidden by the mask
        </span>
      )}
      {missing && (
        <span class="veil">
          <svg width="22" height="10" aria-hidden="true">
            <rect width="22" height="10" fill={css(veils.missing)} />
          </svg>
          padding
        </span>
      )}
    </>
  )
}
