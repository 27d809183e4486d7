/** How the heads stand in the grid: at their place, or by a statistic. */
import type { HeadId } from '../data/run'
import type { State } from './state'

export interface Arranged {
  /** Over the columns: numbers of heads, or nothing. */
  columns: string[]
  rows: {
    name: string
    /** Indices into the heads; null where there is no head. */
    cells: (number | null)[]
  }[]
  /** Whether a cell must say which head it is, since its place does not. */
  named: 'no' | 'head' | 'both'
}

/** Cells across where heads of all layers stand in one order: room for the names in them, and for a map below the name. */
const ACROSS = { cells: 9, maps: 6 }

/** Indices with the largest value first, or the smallest; those without a value last, equal ones as they were. */
export function ranked(values: ArrayLike<number>, indices: number[], largest: boolean): number[] {
  return [...indices].sort((a, b) => {
    const [p, q] = [values[a], values[b]]
    if (Number.isNaN(p) || Number.isNaN(q)) return Number(Number.isNaN(p)) - Number(Number.isNaN(q)) || a - b
    return (largest ? q - p : p - q) || a - b
  })
}

export function arrange(
  heads: HeadId[],
  values: ArrayLike<number>,
  order: State['order'],
  shown: keyof typeof ACROSS = 'cells',
): Arranged {
  const across = ACROSS[shown]
  const all = heads.map((_, i) => i)
  if (order === 'largest' || order === 'smallest') {
    const sorted = ranked(values, all, order === 'largest')
    const rows = []
    for (let at = 0; at < sorted.length; at += across) {
      const cells: (number | null)[] = sorted.slice(at, at + across)
      while (cells.length < across) cells.push(null)
      rows.push({ name: String(at + 1), cells })
    }
    return { columns: [], rows, named: 'both' }
  }
  const layers = new Map<string, number[]>()
  for (const i of all) {
    const name = `${heads[i].part} ${heads[i].layer}`
    layers.set(name, [...(layers.get(name) ?? []), i])
  }
  const several = new Set(heads.map((head) => head.part)).size > 1
  const nameOf = (i: number) => (several ? `${heads[i].part} ${heads[i].layer}` : String(heads[i].layer))
  if (order === 'layer') {
    const width = Math.max(...[...layers.values()].map((own) => own.length))
    const rows = [...layers.values()].map((own) => {
      const cells: (number | null)[] = ranked(values, own, true)
      while (cells.length < width) cells.push(null)
      return { name: nameOf(own[0]), cells }
    })
    return { columns: [], rows, named: 'head' }
  }
  const width = 1 + Math.max(...heads.map((head) => head.head))
  const rows = [...layers.values()].map((own) => {
    const cells = new Array<number | null>(width).fill(null)
    for (const i of own) cells[heads[i].head] = i
    return { name: nameOf(own[0]), cells }
  })
  const columns = Array.from({ length: width }, (_, head) => (width <= 16 || head % 4 === 0 ? String(head) : ''))
  return { columns, rows, named: 'no' }
}
