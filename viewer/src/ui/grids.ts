/** The numbers under a view of one head: the run's pooled map at once, exact weights as soon as they are computed. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Grid } from '../data/engine'
import type { HeadId, Layer } from '../data/run'
import type { Pool } from '../data/weights'
import { MOST_CELLS_PER_PIXEL } from './matrix'
import type { RunView } from './model'
import { useAsync } from './model'
import type { Layered } from './renderer'
import type { View } from './state'

/** A window of more products q_i · k_j than this waits until one zooms in. */
const MOST_PRODUCTS = 4 * 2 ** 20 * 64

/** Who stays with a head this long will zoom in: its query and key are read beforehand. */
const STAYS_MS = 150

export interface Grids {
  /** In up to four pieces, each of cells of one size. */
  base: Layered[]
  detail: Layered | null
  /** Why exact weights are off for this head; null where they are on. */
  why: string | null
  error: string | null
  /** What one cell of the detail, or else of the base, stands for. */
  cell: { queries: number; keys: number }
  exact: boolean
  /** Whether something of what the view asks for is still to come: what is shown may be another head's, or coarser. */
  busy: boolean
  /** Whether what is shown is not of this head, since its own has not come yet. */
  stale: boolean
}

export function wholeOf(layer: Layer): View {
  return { q0: 0, q1: layer.query_len, k0: 0, k1: layer.key_len }
}

const sameView = (a: View, b: View) => a.q0 === b.q0 && a.q1 === b.q1 && a.k0 === b.k0 && a.k1 === b.k1

const cells = (wanted: number, pixels: number) => (wanted <= pixels * MOST_CELLS_PER_PIXEL ? wanted : pixels)

export function useGrids(
  run: RunView,
  id: HeadId,
  layer: Layer,
  view: View | null,
  pool: Pool,
  pixels: { width: number; height: number },
): Grids {
  const head = `${run.order} ${id.part} ${id.layer} ${id.head}`
  const { remote } = run
  const base = useAsync<Grid | null>(() => remote.call('map', id, pool), [remote, head, pool])
  const told = useAsync<{ why: string | null }>(
    () => remote.call<string | null>('whyNotExact', id).then((why) => ({ why })),
    [remote, head],
  )
  const [detail, setDetail] = useState<{ head: string; pool: Pool; grid: Layered } | null>(null)
  const [failed, setFailed] = useState<{ asked: string; message: string } | null>(null)
  const fresh = useRef(true)
  const whole = wholeOf(layer)
  const seen = view ?? whole
  const window: View = {
    q0: Math.max(0, Math.floor(seen.q0)),
    q1: Math.min(layer.query_len, Math.ceil(seen.q1)),
    k0: Math.max(0, Math.floor(seen.k0)),
    k1: Math.min(layer.key_len, Math.ceil(seen.k1)),
  }
  const [queries, keys] = [window.q1 - window.q0, window.k1 - window.k0]
  const fits = queries * keys * layer.head_dim <= MOST_PRODUCTS
  const why = told.value?.why ?? null
  const exactOn = told.value !== null && why === null // of the last head until this one's answer is there
  const [outRows, outKeys] = [cells(queries, pixels.height), cells(keys, pixels.width)]

  const asked = JSON.stringify([head, pool, window, outRows, outKeys])

  // over a window too large to be computed, one left from before would only shift the colours
  const own = fits && detail?.head === head && detail.pool === pool ? detail.grid : null
  const covers = own !== null && sameView(own, window)
  const sharp = covers && own.rows === outRows && own.keys === outKeys
  const broken = failed?.asked === asked ? failed.message : null
  const busy = base.loading || told.loading || (exactOn && fits && !sharp && broken === null)

  useEffect(() => {
    fresh.current = true
  }, [head])

  useEffect(() => {
    if (!exactOn || busy) return
    const timer = setTimeout(() => remote.call('warm', id).catch(() => undefined), STAYS_MS) // a window tells why
    return () => clearTimeout(timer)
  }, [remote, head, exactOn, busy])

  useEffect(() => {
    if (!exactOn || !fits || !pixels.width || sharp) return
    let alive = true
    let job: ReturnType<typeof remote.window<Grid>> | null = null
    const ask = () => {
      const spec = {
        ...id,
        what: 'weights',
        queryStart: window.q0,
        queryEnd: window.q1,
        keyStart: window.k0,
        keyEnd: window.k1,
        outRows,
        outKeys,
        pool,
      }
      const start = performance.now()
      job = remote.window<Grid>(spec)
      job.done.then(
        (grid) => {
          job = null
          if (!alive) return // an answer that overtook its cancelling would stay over the later one
          performance.measure('heedmap window', { start, detail: `${queries} × ${keys}` })
          setDetail({ head, pool, grid: { ...window, rows: grid.rows, keys: grid.keys, values: grid.values } })
        },
        (error: Error) => {
          job = null
          if (alive && error.name !== 'CancelledError') setFailed({ asked, message: error.message })
        },
      )
    }
    const timer = setTimeout(ask, fresh.current ? 0 : 40)
    fresh.current = false
    return () => {
      alive = false
      clearTimeout(timer)
      job?.cancel()
    }
  }, [remote, asked, exactOn, fits, pixels.width > 0])

  const pooled = useMemo(() => (base.value ? piecesOf(base.value, layer) : []), [base.value])
  const cell = covers
    ? { queries: queries / own.rows, keys: keys / own.keys }
    : base.value
      ? { queries: layer.query_len / base.value.rows, keys: layer.key_len / base.value.keys }
      : { queries: 1, keys: 1 }
  return {
    base: pooled,
    detail: own,
    why,
    error: base.error ?? told.error ?? (exactOn && !told.loading ? broken : null),
    cell,
    exact: (covers || pooled.length > 0) && cell.queries === 1 && cell.keys === 1,
    busy,
    stale: base.loading && !covers,
  }
}

/** The cells of a grid over the whole matrix, in pieces that are cut evenly. */
export function piecesOf(grid: Grid, layer: { query_len: number; key_len: number }): Layered[] {
  const stretches = (length: number, parts: number) => {
    const more = grid.cut === 'array_split' ? length % parts : 0
    const large = Math.ceil(length / parts)
    if (more === 0) return [{ from: 0, to: length, first: 0, last: parts }]
    return [
      { from: 0, to: more * large, first: 0, last: more },
      { from: more * large, to: length, first: more, last: parts },
    ]
  }
  const pieces: Layered[] = []
  for (const q of stretches(layer.query_len, grid.rows)) {
    for (const k of stretches(layer.key_len, grid.keys)) {
      const [rows, keys] = [q.last - q.first, k.last - k.first]
      const values = new Float32Array(rows * keys)
      for (let row = 0; row < rows; row++) {
        const at = (q.first + row) * grid.keys + k.first
        values.set(grid.values.subarray(at, at + keys), row * keys)
      }
      pieces.push({ q0: q.from, q1: q.to, k0: k.from, k1: k.to, rows, keys, values })
    }
  }
  return pieces
}

/** Everything to draw, from the bottom up. */
export const layersOf = (grids: Grids): Layered[] => (grids.detail ? [...grids.base, grids.detail] : grids.base)

/** The exact window where it covers the whole view. */
export function coveringOf({ detail }: Grids, view: View): Layered | null {
  const covers = detail && detail.q0 <= view.q0 && detail.q1 >= view.q1 && detail.k0 <= view.k0 && detail.k1 >= view.k1
  return covers ? detail : null
}

export function largestOf(grids: Layered[]): number {
  let largest = 0
  for (const grid of grids)
    for (const value of grid.values) if (value > largest && Number.isFinite(value)) largest = value
  return largest
}
