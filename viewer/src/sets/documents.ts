/** What the server tells of a set: `heedmap/view/sets.py` writes these documents. */
export interface Overview {
  name: string
  model: string | null
  texts: number
  refused: number
  tokens: number
  shards: number
  heads: [string, number, number][]
  units: Record<string, string>
  means: Record<string, (number | null)[]>
  types: string[][]
}

interface OfStatistic {
  statistic: string
}

export interface Example {
  source: string
  place: number
  tokens: number
  excerpt: string
  /** Whether the text goes on after its excerpt. */
  cut: boolean
  run: string | null
  command: string
}

export interface HeadPage {
  means: (OfStatistic & {
    unit: string
    texts: number
    mean: number
    low: number | null
    high: number | null
    deviation: number | null
  })[]
  deciles: (OfStatistic & { decile: number; value: number; text: number })[]
  tops: (OfStatistic & { side: 'highest' | 'lowest'; rank: number; value: number; text: number })[]
  profiles: { distance_from: number; distance_to: number; mean_weight: number; weight: number; pairs: number }[]
  entropies: { entropy_from: number; entropy_to: number; rows: number }[]
  kinds: { kind: string; tokens: number; share: number | null; mean_weight: number | null }[]
  types: { type: string; mean: number; bar: number; holds: boolean; texts: number; texts_of_type: number }[]
  map: number[][]
  examples: Record<string, Example>
}

/** Reads one document; what the server says of a failure becomes the error. */
export async function read<T>(path: string): Promise<T> {
  let response: Response
  try {
    response = await fetch(path)
  } catch {
    throw new Error('the server does not answer: `heedmap view` has ended')
  }
  const text = await response.text()
  try {
    return JSON.parse(text) as T
  } catch {
    throw new Error(text.trim() || response.statusText)
  }
}

export interface Chosen {
  head: number
  statistic: string
  x: string
  y: string
}

/** What is chosen, as the address keeps it after its #. */
export function toHash(chosen: Chosen, heads: Overview['heads']): string {
  const [part, layer, head] = heads[chosen.head]
  return new URLSearchParams({
    head: `${part} ${layer}.${head}`,
    statistic: chosen.statistic,
    x: chosen.x,
    y: chosen.y,
  }).toString()
}

/** What an address chooses; whatever it names that the set lacks falls back to what is there. */
export function fromHash(hash: string, overview: Overview): Chosen {
  const asked = new URLSearchParams(hash.replace(/^#/, ''))
  const names = Object.keys(overview.units)
  const known = (name: string, fallback: string) => {
    const value = asked.get(name)
    return value !== null && names.includes(value) ? value : names.includes(fallback) ? fallback : names[0]
  }
  const head = overview.heads.findIndex(([part, layer, number]) => `${part} ${layer}.${number}` === asked.get('head'))
  return {
    head: Math.max(0, head),
    statistic: known('statistic', 'entropy'),
    x: known('x', 'mean_distance'),
    y: known('y', 'entropy'),
  }
}

/** Least and largest of the numbers that there are. */
export function rangeOf(values: (number | null)[]): [number, number] {
  const there = values.filter((value): value is number => value !== null)
  return there.length ? [Math.min(...there), Math.max(...there)] : [0, 1]
}

/** Where a value lies between two ends, 0 to 1. */
export function shareOf(value: number, [low, high]: [number, number]): number {
  return high > low ? Math.min(1, Math.max(0, (value - low) / (high - low))) : 0.5
}
