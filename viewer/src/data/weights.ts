/**
 * Exact attention weights of a window of one head's matrix, from what a run keeps:
 *
 *     scores[i, j]  = softcap · tanh(scale · q_i · k_j / softcap)   where the mask allows (i, j), else −∞
 *     weights[i, j] = exp(scores[i, j] − row_max_i) / row_sum_i
 *
 * A sink needs no term: a row's maximum and sum include it. Products are summed in double precision.
 */
import { cellsOf } from './hidden'
import { allowed, seen, type Mask } from './masks'

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

/** q·k of `rows` rows from `first` on with every key: float64 `[rows, keys]` in `out`. */
export function rawScores(rows: Rows, first: number, count: number, keys: Keys, dim: number, out: Float64Array): void {
  const q = rows.query
  const k = keys.key
  const n = keys.count
  for (let row = 0; row < count; row++) {
    const at = (first + row) * dim
    const to = row * n
    let j = 0
    for (; j + 4 <= n; j += 4) {
      let a = j * dim
      let b = a + dim
      let c = b + dim
      let d = c + dim
      let s0 = 0
      let s1 = 0
      let s2 = 0
      let s3 = 0
      for (let i = at; i < at + dim; i++) {
        const x = q[i]
        s0 += x * k[a++]
        s1 += x * k[b++]
        s2 += x * k[c++]
        s3 += x * k[d++]
      }
      out[to + j] = s0
      out[to + j + 1] = s1
      out[to + j + 2] = s2
      out[to + j + 3] = s3
    }
    for (; j < n; j++) {
      let sum = 0
      for (let i = 0, a = j * dim; i < dim; i++) sum += q[at + i] * k[a++]
      out[to + j] = sum
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
  for (let outRow = 0; outRow < outRows; outRow++) {
    sums.fill(request.pool === 'max' ? NaN : 0)
    visible.fill(request.what === 'raw' ? 1 : 0)
    let valid = 0
    for (let first = rowBounds[outRow]; first < rowBounds[outRow + 1]; first += block) {
      const count = Math.min(block, rowBounds[outRow + 1] - first)
      rawScores(rows, first, count, keys, dim, scratch)
      finish(request.what, formula, rows, first, count, keys, scratch)
      for (let row = 0; row < count; row++) {
        if (Number.isNaN(rows.rowSum[first + row])) continue
        valid++
        const at = row * n
        if (rows.rowSum[first + row] !== 0)
          seen(formula.mask, rows.position + first + row, keys.position, n, cellOf, visible)
        if (request.pool === 'max') {
          for (let cell = 0; cell < outKeys; cell++) {
            let top = sums[cell]
            for (let j = keyBounds[cell]; j < keyBounds[cell + 1]; j++) {
              const value = scratch[at + j]
              if (!(value <= top)) top = value
            }
            sums[cell] = top
          }
        } else {
          for (let cell = 0; cell < outKeys; cell++) {
            let sum = sums[cell]
            for (let j = keyBounds[cell]; j < keyBounds[cell + 1]; j++) sum += scratch[at + j]
            sums[cell] = sum
          }
        }
      }
    }
    const to = outRow * outKeys
    for (let cell = 0; cell < outKeys; cell++) {
      out[to + cell] =
        valid && !visible[cell] && request.what === 'weights'
          ? -0
          : request.pool === 'max'
            ? sums[cell]
            : valid
              ? sums[cell] / (valid * (keyBounds[cell + 1] - keyBounds[cell]))
              : NaN
    }
    const wait = pause()
    if (wait) await wait
  }
  return out
}
