/** Where the mask hides everything, so that a map can tell "may not be seen" from "got no weight". */
import { seen } from './masks'
import type { Layer } from './run'

interface Cells {
  rows: number
  keys: number
  cut?: 'array_split'
}

type Shape = Pick<Layer, 'mask' | 'query_len' | 'key_len' | 'query_offset' | 'key_offset'>

/** Indices of the cells of a grid over the whole matrix in which the mask hides every pair. */
export function hidden(layer: Shape, grid: Cells): Uint32Array {
  const visible = new Uint8Array(grid.rows * grid.keys)
  const rowOf = cellsOf(layer.query_len, grid.rows, grid.cut)
  const keyOf = cellsOf(layer.key_len, grid.keys, grid.cut)
  for (let query = 0; query < layer.query_len; query++) {
    const row = rowOf(query) * grid.keys
    const out = visible.subarray(row, row + grid.keys)
    seen(layer.mask, query + layer.query_offset, layer.key_offset, layer.key_len, keyOf, out)
  }
  const found: number[] = []
  for (let i = 0; i < visible.length; i++) if (!visible[i]) found.push(i)
  return Uint32Array.from(found)
}

/** In which of `parts` cells the i-th of `length` positions lies: evenly cut, or as numpy.array_split cuts. */
export function cellsOf(length: number, parts: number, cut?: 'array_split'): (i: number) => number {
  if (cut !== 'array_split') return (i) => Math.floor(((i + 1) * parts - 1) / length)
  const size = Math.floor(length / parts)
  const more = length % parts
  const edge = more * (size + 1)
  return (i) => (i < edge ? Math.floor(i / (size + 1)) : more + Math.floor((i - edge) / size))
}
