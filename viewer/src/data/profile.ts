/** Profiles of a head from the pooled ones that a file within a size holds for want of its tables. */
import type { Layer } from './run'
import type { TensorFile } from './safetensors'
import type { Columns } from './tables'

export type Table = 'query' | 'key' | 'distance'

export interface Profile {
  columns: Columns | null
  /** How many positions stand behind a point: 1 where every row is there, more where the lowest and highest of a bin. */
  pooled: number
}

/** The start of each of `count` bins of `length` positions, and the end, as numpy.array_split cuts. */
function edges(length: number, count: number): number[] {
  const [size, more] = [Math.floor(length / count), length % count]
  return Array.from({ length: count + 1 }, (_, i) => i * size + Math.min(i, more))
}

export async function pooledProfile(file: TensorFile, layer: Layer, head: number, table: Table): Promise<Profile> {
  const name = `${layer.part}.${layer.layer}`
  const what = `${name}.${{ query: 'entropy', key: 'received', distance: 'distance' }[table]}`
  if (!file.has(what)) return { columns: null, pooled: 1 }
  const bins = file.get(what).shape[2]
  const at = layer.heads.indexOf(head)
  const values = await file.values(what, at * 2 * bins, 2 * bins)
  if (table === 'distance') {
    const first = await file.values('distances', 0, bins + 1)
    return { columns: byDistance(first, values, bins), pooled: 1 }
  }
  const [length, offset] = table === 'query' ? [layer.query_len, layer.query_offset] : [layer.key_len, layer.key_offset]
  const bounds = edges(length, bins)
  const middle = (bin: number) => offset + (bounds[bin] + bounds[bin + 1] - 1) / 2
  const highest = table === 'key' ? await file.values(`${name}.received_at`, at * bins, bins) : null
  const seen = table === 'key' ? await file.values(`${name}.seen`, 0, bins) : null
  const points: [position: number, value: number, seen: number][] = []
  for (let bin = 0; bin < bins; bin++) {
    const [low, high] = [values[bin], values[bins + bin]]
    if (!(low <= high)) continue
    const top: [number, number, number] = [highest ? highest[bin] : middle(bin), high, seen ? seen[bin] : 0]
    const bottom: [number, number, number] = [middle(bin), low, seen ? seen[bin] : 0]
    if (bounds[bin + 1] - bounds[bin] === 1) points.push(top)
    else points.push(...(top[0] < bottom[0] ? [top, bottom] : [bottom, top]))
  }
  const column = (i: 0 | 1 | 2) => Float64Array.from(points, (point) => point[i])
  const columns: Columns =
    table === 'query'
      ? { position: column(0), entropy: column(1) }
      : { position: column(0), received_mean: column(1), rows_that_may_see: column(2) }
  return { columns, pooled: length / bins }
}

/** One point a bin, in the middle of its distances by their logarithm. */
function byDistance(first: ArrayLike<number>, values: ArrayLike<number>, bins: number): Columns {
  const points: [number, number][] = []
  for (const [row, sign] of [[0, 1] as const, [1, -1] as const]) {
    for (let bin = 0; bin < bins; bin++) {
      const mean = values[row * bins + bin]
      if (Number.isNaN(mean)) continue
      const last = first[bin + 1] - 1
      points.push([sign * (last === first[bin] ? last : Math.sqrt(first[bin] * last)), mean])
    }
  }
  return {
    distance: Float64Array.from(points, (point) => point[0]),
    distance_mean: Float64Array.from(points, (point) => point[1]),
  }
}
