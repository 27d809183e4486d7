/** A mask as plain data, as `run.json` describes it; positions are text positions. */
export type Mask = { kind: string } & Record<string, unknown>

/** Why a mask cannot be evaluated here, or null where it can. */
export function whyOpaque(mask: Mask): string | null {
  switch (mask.kind) {
    case 'all':
    case 'causal':
    case 'sliding_window':
    case 'chunked':
    case 'prefix':
    case 'padding':
    case 'packed':
      return null
    case 'and':
    case 'or':
      for (const part of mask.of as Mask[]) {
        const why = whyOpaque(part)
        if (why !== null) return why
      }
      return null
    case 'opaque':
      return typeof mask.why === 'string' ? mask.why : 'the mask has no plain description'
    default:
      return `this viewer does not know masks of kind “${mask.kind}”`
  }
}

/** Text positions from `from` on and before `to`. */
export type Stretch = [from: number, to: number]

/** The keys that a query may see, as stretches of text positions that ascend and do not touch. */
export function stretches(mask: Mask, query: number): Stretch[] {
  switch (mask.kind) {
    case 'all':
      return [[-Infinity, Infinity]]
    case 'causal':
      return [[-Infinity, query + ((mask.offset as number | undefined) ?? 0) + 1]]
    case 'sliding_window': {
      const size = mask.size as number
      return mask.both_sides ? [[query - size, query + size + 1]] : [[query - size + 1, query + 1]]
    }
    case 'chunked': {
      const size = mask.size as number
      const first = (mask.start as number | undefined) ?? 0
      const chunk = Math.floor((query - first) / size)
      return [[first + chunk * size, first + (chunk + 1) * size]]
    }
    case 'prefix':
      return [[-Infinity, mask.length as number]]
    case 'padding':
      return joined(mask.valid as Stretch[])
    case 'packed': {
      const documents = mask.documents as [number, number, number][]
      const own = documents.find(([from, to]) => query >= from && query < to)
      return own ? joined(documents.filter((one) => one[2] === own[2]).map(([from, to]) => [from, to])) : []
    }
    case 'and':
      return (mask.of as Mask[]).map((part) => stretches(part, query)).reduce(both)
    case 'or':
      return joined((mask.of as Mask[]).flatMap((part) => stretches(part, query)))
    default:
      throw new Error(whyOpaque(mask) ?? mask.kind)
  }
}

function joined(found: Stretch[]): Stretch[] {
  const sorted = found.filter(([from, to]) => from < to).sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0))
  const result: Stretch[] = []
  for (const [from, to] of sorted) {
    const last = result[result.length - 1]
    if (last && from <= last[1]) last[1] = Math.max(last[1], to)
    else result.push([from, to])
  }
  return result
}

function both(a: Stretch[], b: Stretch[]): Stretch[] {
  const result: Stretch[] = []
  for (let i = 0, j = 0; i < a.length && j < b.length; a[i][1] < b[j][1] ? i++ : j++) {
    const [from, to] = [Math.max(a[i][0], b[j][0]), Math.min(a[i][1], b[j][1])]
    if (from < to) result.push([from, to])
  }
  return result
}

/** Writes 1 into `out` for each of `count` keys from `start` on that the query may see, 0 for the others. */
export function allowed(mask: Mask, query: number, start: number, count: number, out: Uint8Array): void {
  out.fill(0, 0, count)
  for (const [from, to] of stretches(mask, query)) {
    const [first, last] = [Math.max(0, from - start), Math.min(count, to - start)]
    if (first < last) out.fill(1, first, last)
  }
}

/** Marks, in one row of cells, those of which a query may see a key. `cellOf` says in which cell the i-th key lies. */
export function seen(
  mask: Mask,
  query: number,
  start: number,
  count: number,
  cellOf: (key: number) => number,
  out: Uint8Array,
): void {
  for (const [from, to] of stretches(mask, query)) {
    const [first, last] = [Math.max(0, from - start), Math.min(count, to - start)]
    if (first < last) out.fill(1, cellOf(first), cellOf(last - 1) + 1)
  }
}
