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
  for (const [name, values] of Object.entries(run.telling?.scores ?? {})) {
    if (name === 'broad' || name === 'sharp' || name in headTable || values.every((v) => v === null)) continue
    found.push({ name, label: labelOf(name), unit: 'weight', values: values.map((v) => v ?? NaN) })
  }
  return found
}

export const KINDS: Record<string, string> = {
  previous: 'token before',
  next: 'token after',
  self: 'itself',
  first: 'first token',
  separator: 'separator',
  broad: 'broad',
  mixed: 'mixed',
}

/** A head's type: the share that holds at least half of its weight; broad above 3.8 nats (Clark et al. 2019). */
export function kindsOf(run: RunView): string[] {
  const shares = ['previous', 'next', 'self', 'first', 'separator']
  const scores = run.telling?.scores ?? {}
  return run.opened.heads.map((_, i) => {
    let best = 'mixed'
    let most = 0.5
    for (const kind of shares) {
      const value = scores[kind]?.[i] ?? 0
      if (value >= most) {
        best = kind
        most = value
      }
    }
    if (best === 'mixed' && run.opened.headTable.entropy?.[i] > 3.8) best = 'broad'
    return best
  })
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
