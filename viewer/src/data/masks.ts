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

/** Writes 1 into `out` for each of `count` keys from `start` on that the query may see, 0 for the others. */
export function allowed(mask: Mask, query: number, start: number, count: number, out: Uint8Array): void {
  switch (mask.kind) {
    case 'all':
      out.fill(1, 0, count)
      return
    case 'causal':
      between(out, start, count, -Infinity, query + ((mask.offset as number | undefined) ?? 0) + 1)
      return
    case 'sliding_window': {
      const size = mask.size as number
      if (mask.both_sides) between(out, start, count, query - size, query + size + 1)
      else between(out, start, count, query - size + 1, query + 1)
      return
    }
    case 'chunked': {
      const size = mask.size as number
      const first = (mask.start as number | undefined) ?? 0
      const chunk = Math.floor((query - first) / size)
      between(out, start, count, first + chunk * size, first + (chunk + 1) * size)
      return
    }
    case 'prefix':
      between(out, start, count, -Infinity, mask.length as number)
      return
    case 'padding':
      out.fill(0, 0, count)
      for (const [from, to] of mask.valid as [number, number][]) add(out, start, count, from, to)
      return
    case 'packed': {
      out.fill(0, 0, count)
      const documents = mask.documents as [number, number, number][]
      const own = documents.find(([from, to]) => query >= from && query < to)
      if (!own) return
      for (const [from, to, name] of documents) if (name === own[2]) add(out, start, count, from, to)
      return
    }
    case 'and':
    case 'or': {
      const [first, ...rest] = mask.of as Mask[]
      allowed(first, query, start, count, out)
      const other = new Uint8Array(count)
      for (const part of rest) {
        allowed(part, query, start, count, other)
        if (mask.kind === 'and') for (let i = 0; i < count; i++) out[i] &= other[i]
        else for (let i = 0; i < count; i++) out[i] |= other[i]
      }
      return
    }
    default:
      throw new Error(whyOpaque(mask) ?? mask.kind)
  }
}

function between(out: Uint8Array, start: number, count: number, from: number, to: number): void {
  out.fill(0, 0, count)
  add(out, start, count, from, to)
}

function add(out: Uint8Array, start: number, count: number, from: number, to: number): void {
  const first = Math.max(0, from - start)
  const last = Math.min(count, to - start)
  if (first < last) out.fill(1, first, last)
}
