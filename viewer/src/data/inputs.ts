/** Query, key and what the softmax needs, of one head at a time, and only the rows that are asked for. */
import type { Layer } from './run'
import type { TensorFile } from './safetensors'
import { LeftOutError } from './source'
import type { Keys, Rows } from './weights'

type Numbers = Float32Array | Float64Array

/** A head's share of a tensor up to this many bytes is kept once it was read whole. */
const LARGEST_KEPT = 16 * 2 ** 20
/** A share up to this many bytes is always read whole. */
const SMALL = 2 ** 18
/** Of a larger one, whoever needs less than one part in so many reads just that; `warm` brings the rest. */
const PARTS = 4
const CACHE = 128 * 2 ** 20

export class Inputs {
  private cache = new Map<string, { values: Promise<Numbers>; bytes: number }>()

  constructor(private readonly file: () => Promise<TensorFile>) {}

  async rows(layer: Layer, head: number, start: number, end: number): Promise<Rows> {
    const at = layer.heads.indexOf(head) * layer.query_len + start
    const dim = layer.head_dim
    const count = end - start
    const [query, rowMax, rowSum] = await Promise.all([
      this.part(layer, 'query', head, at * dim, count * dim, layer.query_len * dim),
      this.part(layer, 'row_max', head, at, count, layer.query_len),
      this.part(layer, 'row_sum', head, at, count, layer.query_len),
    ])
    return {
      query,
      rowMax: rowMax as Float32Array,
      rowSum: rowSum as Float32Array,
      position: start + layer.query_offset,
    }
  }

  async keys(layer: Layer, head: number, start: number, end: number): Promise<Keys> {
    const dim = layer.head_dim
    const own = keyHead(layer, head)
    const at = (own * layer.key_len + start) * dim
    const key = await this.part(layer, 'key', own, at, (end - start) * dim, layer.key_len * dim)
    return { key, position: start + layer.key_offset, count: end - start }
  }

  /** ‖v‖ of every key; null where the run does not hold it. */
  async norms(layer: Layer, head: number): Promise<Float32Array | null> {
    if (!layer.inputs || !(await this.file()).has(`${layer.part}.${layer.layer}.value_norm`)) return null
    return (await this.values(layer, 'value_norm', keyHead(layer, head) * layer.key_len, layer.key_len)) as Float32Array
  }

  /** Reads one number of a head; fails where they cannot be read. */
  async touch(layer: Layer, head: number): Promise<void> {
    await this.values(layer, 'row_sum', layer.heads.indexOf(head) * layer.query_len, 1)
  }

  /** Reads a head's query and key whole, so that no window waits for them; nothing where they were left out. */
  async warm(layer: Layer, head: number): Promise<void> {
    const fits = (length: number) => layer.inputs && length * layer.head_dim * 4 <= LARGEST_KEPT
    try {
      await Promise.all([
        fits(layer.query_len) && this.rows(layer, head, 0, layer.query_len),
        fits(layer.key_len) && this.keys(layer, head, 0, layer.key_len),
      ])
    } catch (error) {
      if (!(error instanceof LeftOutError)) throw error
    }
  }

  /** A range of values within one head's share of a tensor. */
  private async part(
    layer: Layer,
    what: string,
    head: number,
    offset: number,
    count: number,
    share: number,
  ): Promise<Numbers> {
    if (share * 4 > LARGEST_KEPT) return this.values(layer, what, offset, count)
    const first = Math.floor(offset / share) * share
    const name = `${layer.part} ${layer.layer} ${what} ${head}`
    let kept = this.cache.get(name)
    if (!kept && share * 4 > SMALL && count * PARTS < share) return this.values(layer, what, offset, count)
    if (!kept) {
      kept = { values: this.values(layer, what, first, share), bytes: share * 4 }
      kept.values.catch(() => this.cache.delete(name))
    } else this.cache.delete(name)
    this.cache.set(name, kept)
    this.forget()
    return (await kept.values).subarray(offset - first, offset - first + count)
  }

  private forget(): void {
    let total = 0
    for (const entry of this.cache.values()) total += entry.bytes
    for (const [name, entry] of this.cache) {
      if (total <= CACHE) return
      this.cache.delete(name)
      total -= entry.bytes
    }
  }

  private async values(layer: Layer, what: string, offset: number, count: number): Promise<Numbers> {
    return (await (await this.file()).values(`${layer.part}.${layer.layer}.${what}`, offset, count)) as Float32Array
  }
}

function keyHead(layer: Layer, head: number): number {
  return Math.floor(head / (layer.query_heads / layer.key_heads))
}
