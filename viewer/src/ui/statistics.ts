/** What can colour or place a head: columns of the head table, shares that tell what it does, and its type. */
import type { RunView } from './model'
import { words } from './format'

const HIDDEN = new Set(['rows', 'rows_empty', 'rows_not_finite', 'row_max', 'row_sum'])
const NAMES: Record<string, string> = {
  entropy: 'entropy',
  max_weight: 'largest weight',
  mean_distance: 'mean distance',
  row_mass: 'row mass',
  previous: 'on the token before',
  next: 'on the token after',
  self: 'on itself',
  first: 'on the first token',
  separator: 'on later special tokens',
  induction: 'after earlier copies',
  duplicate: 'on earlier copies',
  positional: 'largest on a neighbour',
  local: 'within 5 tokens',
  sink: 'on its sink',
  punctuation: 'on punctuation',
}

export const labelOf = (name: string): string => NAMES[name] ?? words(name)

export interface Measure {
  name: string
  label: string
  unit: string
  values: ArrayLike<number>
}

export function measures(run: RunView): Measure[] {
  const found: Measure[] = []
  const { headTable, meta } = run.opened
  for (const [name, values] of Object.entries(headTable)) {
    if (HIDDEN.has(name) || values.every((v) => !Number.isFinite(v))) continue
    found.push({ name, label: labelOf(name), unit: meta.statistics[name]?.unit ?? '', values })
  }
  for (const [name, values] of Object.entries({ ...run.types?.values, ...run.telling?.scores })) {
    if (name === 'broad' || name === 'sharp' || name in headTable || values.every((v) => v === null)) continue
    found.push({ name, label: labelOf(name), unit: 'weight', values: values.map((v) => v ?? NaN) })
  }
  return found
}

export const KINDS: Record<string, string> = {
  induction: 'induction',
  duplicate: 'earlier copies',
  previous: 'token before',
  next: 'token after',
  positional: 'a neighbour',
  self: 'itself',
  local: 'nearby',
  first: 'first token',
  sink: 'a sink',
  separator: 'separator',
  punctuation: 'punctuation',
  broad: 'broad',
  none: 'no type',
}

/** The first type of every head, as `heedmap heads` tells it. */
export function kindsOf(run: RunView): string[] {
  return run.opened.heads.map((_, i) => run.types?.types[i]?.[0] ?? 'none')
}

export function rangeOf(values: ArrayLike<number>): [number, number] {
  let low = Infinity
  let high = -Infinity
  for (let i = 0; i < values.length; i++) {
    const v = values[i]
    if (!Number.isFinite(v)) continue
    if (v < low) low = v
    if (v > high) high = v
  }
  return low <= high ? [low, high] : [0, 1]
}
