/**
 * Exact attention weights of a window of one head's matrix, from what a run keeps:
 *
 *     scores[i, j]  = softcap · tanh(scale · q_i · k_j / softcap)   where the mask allows (i, j), else −∞
 *     weights[i, j] = exp(scores[i, j] − row_max_i) / row_sum_i
 *
 * A sink needs no term: a row's maximum and sum include it. Products are summed in double precision.
 */
import { cellsOf } from './hidden'
import { allowed, seen, stretches, type Mask } from './masks'

export interface Formula {
  scale: number
  softcap: number | null
  mask: Mask
}

export type What = 'weights' | 'scores' | 'raw'

export interface Rows {
  /** `[rows, dim]` */
  query: Float32Array | Float64Array
  rowMax: Float32Array
  rowSum: Float32Array
  /** Text position of the first row. */
  position: number
}

export interface Keys {
  /** `[keys, dim]` */
  key: Float32Array | Float64Array
  /** Text position of the first key. */
  position: number
  count: number
}

/**
 * q·k of `count` rows from `first` on with the keys `from` to `to` (exclusive): float64 `[count, keys]` in `out`, where
 * the other keys keep what is there. Two rows and four keys at a time, so that each number is read from memory rarely.
 */
export function rawScores(
  rows: Rows,
  first: number,
  count: number,
  keys: Keys,
  dim: number,
  out: Float64Array,
  from = 0,
  to = keys.count,
): void {
  const q = rows.query
  const k = keys.key
  for (let row = 0; row < count; row += 2) {
    const next = Math.min(row + 1, count - 1) // an odd row goes with itself
    const [at, ahead] = [(first + row) * dim, (next - row) * dim]
    const [here, there] = [row * keys.count, next * keys.count]
    let j = from
    for (; j + 4 <= to; j += 4) {
      let a = j * dim
      let b = a + dim
      let c = b + dim
      let d = c + dim
      let s0 = 0
      let s1 = 0
      let s2 = 0
      let s3 = 0
      let t0 = 0
      let t1 = 0
      let t2 = 0
      let t3 = 0
      for (let i = at; i < at + dim; i++) {
        const x = q[i]
        const y = q[i + ahead]
        const ka = k[a++]
        const kb = k[b++]
        const kc = k[c++]
        const kd = k[d++]
        s0 += x * ka
        s1 += x * kb
        s2 += x * kc
        s3 += x * kd
        t0 += y * ka
        t1 += y * kb
        t2 += y * kc
        t3 += y * kd
      }
      out[here + j] = s0
      out[here + j + 1] = s1
      out[here + j + 2] = s2
      out[here + j + 3] = s3
      out[there + j] = t0
      out[there + j + 1] = t1
      out[there + j + 2] = t2
      out[there + j + 3] = t3
    }
    for (; j < to; j++) {
      let s = 0
      let t = 0
      for (let i = at, a = j * dim; i < at + dim; i++, a++) {
        s += q[i] * k[a]
        t += q[i + ahead] * k[a]
      }
      out[here + j] = s
      out[there + j] = t
    }
  }
}

/** Turns raw scores `[count, keys]` into scores or weights, in place. */
export function finish(
  what: What,
  formula: Formula,
  rows: Rows,
  first: number,
  count: number,
  keys: Keys,
  values: Float64Array,
): void {
  const n = keys.count
  const may = new Uint8Array(n)
  for (let row = 0; row < count; row++) {
    const at = row * n
    const sum = rows.rowSum[first + row]
    const top = rows.rowMax[first + row]
    if (Number.isNaN(sum)) {
      values.fill(NaN, at, at + n)
      continue
    }
    if (what === 'raw') continue
    if (what === 'weights' && sum === 0) {
      values.fill(0, at, at + n)
      continue
    }
    allowed(formula.mask, rows.position + first + row, keys.position, n, may)
    const { scale, softcap } = formula
    for (let j = 0; j < n; j++) {
      if (!may[j]) {
        values[at + j] = what === 'weights' ? 0 : -Infinity
        continue
      }
      let score = values[at + j] * scale
      if (softcap !== null) score = softcap * Math.tanh(score / softcap)
      values[at + j] = what === 'weights' ? Math.exp(score - top) / sum : score
    }
  }
}

/** Bounds of `parts` pieces of `length`, as even as whole numbers allow, so that a cell is drawn where its values lie. */
export function split(length: number, parts: number): Int32Array {
  return Int32Array.from({ length: parts + 1 }, (_, i) => Math.floor((i * length) / parts))
}

export type Pool = 'mean' | 'max'

export interface WindowRequest {
  what: What
  outRows: number
  outKeys: number
  pool: Pool
}

/**
 * A window, pooled to `[outRows, outKeys]` where that is smaller than the window; float32.
 * A cell's mean is over its valid rows and all its keys, hidden ones counting 0, as in the run's pooled maps. A cell in
 * which the mask hides every pair has the weight −0: the number 0, and yet told apart from a weight that came out as 0.
 * `pause` is awaited between blocks of rows, so that a long window can be interrupted or share a thread.
 */
export async function windowOf(
  formula: Formula,
  rows: Rows,
  rowCount: number,
  keys: Keys,
  dim: number,
  request: WindowRequest,
  pause: () => Promise<void> | void,
): Promise<Float32Array<ArrayBuffer>> {
  const outRows = Math.min(request.outRows, rowCount)
  const outKeys = Math.min(request.outKeys, keys.count)
  const n = keys.count
  const out = new Float32Array(outRows * outKeys)
  const rowBounds = split(rowCount, outRows)
  const keyBounds = split(n, outKeys)
  const block = Math.max(1, Math.min(64, Math.floor(65536 / n)))
  const scratch = new Float64Array(block * n)
  const sums = new Float64Array(outKeys)
  const visible = new Uint8Array(outKeys)
  const cellOf = cellsOf(n, outKeys)
  const { what, pool } = request
  let valid = 0
  const begin = () => {
    sums.fill(pool === 'max' ? NaN : 0)
    visible.fill(what === 'raw' ? 1 : 0)
    valid = 0
  }
  let outRow = 0
  begin()
  for (let first = 0; first < rowCount; first += block) {
    const count = Math.min(block, rowCount - first)
    const [from, to] = what === 'raw' ? [0, n] : reach(formula.mask, rows.position + first, count, keys)
    rawScores(rows, first, count, keys, dim, scratch, from, to)
    finish(what, formula, rows, first, count, keys, scratch)
    for (let row = 0; row < count; row++) {
      if (!Number.isNaN(rows.rowSum[first + row])) {
        valid++
        if (rows.rowSum[first + row] !== 0)
          seen(formula.mask, rows.position + first + row, keys.position, n, cellOf, visible)
        if (pool === 'max') highest(scratch, row * n, keyBounds, sums)
        else added(scratch, row * n, keyBounds, sums)
      }
      if (first + row + 1 < rowBounds[outRow + 1]) continue
      const at = outRow * outKeys
      for (let cell = 0; cell < outKeys; cell++) {
        out[at + cell] =
          valid && !visible[cell] && what === 'weights'
            ? -0
            : pool === 'max'
              ? sums[cell]
              : valid
                ? sums[cell] / (valid * (keyBounds[cell + 1] - keyBounds[cell]))
                : NaN
      }
      outRow++
      begin()
    }
    const wait = pause()
    if (wait) await wait
  }
  return out
}

/** The keys of a window between the first and the last that any of its rows may see: indices, the end exclusive. */
function reach(mask: Mask, query: number, count: number, keys: Keys): [number, number] {
  let [first, last] = [keys.count, 0]
  for (let row = 0; row < count; row++) {
    for (const [from, to] of stretches(mask, query + row)) {
      first = Math.min(first, from - keys.position)
      last = Math.max(last, to - keys.position)
    }
  }
  return [Math.max(0, first), Math.min(keys.count, last)]
}

function highest(values: Float64Array, at: number, bounds: Int32Array, tops: Float64Array): void {
  for (let cell = 0; cell < tops.length; cell++) {
    let top = tops[cell]
    for (let j = bounds[cell]; j < bounds[cell + 1]; j++) {
      const value = values[at + j]
      if (!(value <= top)) top = value
    }
    tops[cell] = top
  }
}

function added(values: Float64Array, at: number, bounds: Int32Array, sums: Float64Array): void {
  for (let cell = 0; cell < sums.length; cell++) {
    let sum = sums[cell]
    for (let j = bounds[cell]; j < bounds[cell + 1]; j++) sum += values[at + j]
    sums[cell] = sum
  }
}

/**
 * Computes small windows of made-up numbers until the browser has compiled what windows need: the first real one is
 * then as quick as later ones. `pause` is awaited between them.
 */
export async function rehearse(pause: () => Promise<void>): Promise<void> {
  const [size, dim] = [64, 64]
  const values = Float32Array.from({ length: size * dim }, (_, i) => Math.sin(i))
  const rows = { query: values, rowMax: values, rowSum: new Float32Array(size).fill(size), position: size }
  const keys = { key: values, position: 0, count: size }
  const formula = { scale: 1 / 8, softcap: null, mask: { kind: 'causal' } }
  const request = { what: 'weights', outRows: size, outKeys: size, pool: 'mean' } as const
  for (let round = 0; round < 16; round++) {
    await windowOf(formula, rows, size, keys, dim, request, () => undefined)
    await pause()
  }
}
