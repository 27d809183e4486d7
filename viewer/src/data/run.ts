import type { Mask } from './masks'
import { RunError } from './source'

/** One attention layer, as `run.json` describes it. */
export interface Layer {
  part: string
  layer: number
  module: string
  query_heads: number
  key_heads: number
  heads: number[]
  head_dim: number
  query_len: number
  key_len: number
  query_offset: number
  key_offset: number
  scale: number
  softcap: number | null
  sinks: (number | null)[] | null
  mask: Mask
  cross: boolean
  kernel: string
  inputs: boolean
  query_sequence?: string
  key_sequence?: string
  requires?: string[]
}

export interface Meta {
  format: string
  version: number
  heedmap: string
  created: string
  model: { name?: string; revision?: string | null; class?: string; dtype?: string; initialised?: number }
  text: { sha256?: string; tokens?: number; characters?: number; truncated_from?: number | null }
  statistics: Record<string, { axis: string; unit: string }>
  layers: Layer[]
  self_check: { passed?: boolean; max_abs_error?: number; layer?: number; head?: number } | null
  files: Record<string, { bytes: number }>
}

/** One head's place: which part of the model, which layer, which head. */
export interface HeadId {
  part: string
  layer: number
  head: number
}

export const VERSION = 1

export function parseMeta(text: string): Meta {
  let meta: Meta
  try {
    meta = JSON.parse(text)
  } catch {
    throw new RunError('run.json is not JSON: the run is damaged')
  }
  if (meta?.format !== 'heedmap-run') throw new RunError('this is not a heedmap run')
  if (!(meta.version <= VERSION)) {
    throw new RunError(
      `this run has format version ${meta.version}; this viewer reads version ${VERSION}: update heedmap`,
    )
  }
  if (!Array.isArray(meta.layers) || meta.layers.length === 0 || !meta.files)
    throw new RunError('run.json is incomplete')
  return meta
}

export function headName(id: HeadId, parts = 1): string {
  return parts > 1 ? `${id.part} ${id.layer}.${id.head}` : `${id.layer}.${id.head}`
}

/** The tokens of a run, column by column. */
export interface Tokens {
  count: number
  label: string[]
  start: Float64Array
  end: Float64Array
  special: boolean[]
  segment: Float64Array
  sequence: string[]
  position: Float64Array
  word: Float64Array
}

/** What a page needs first. */
export interface Opened {
  meta: Meta
  text: string
  textPair: string | null
  tokens: Tokens
  /** Numeric columns of the head table, in the order of `heads`. */
  headTable: Record<string, Float64Array>
  heads: HeadId[]
}

/** Indices into the tokens of one axis of a layer: index i of the axis is token `axis[i]`, −1 where it is unknown. */
export function axisTokens(tokens: Tokens, sequence: string, offset: number, length: number): Int32Array {
  const at = new Map<number, number>()
  for (let i = 0; i < tokens.count; i++) {
    if (tokens.sequence[i] === sequence) at.set(tokens.position[i], i)
  }
  return Int32Array.from({ length }, (_, i) => at.get(i + offset) ?? -1)
}
