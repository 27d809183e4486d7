/** Everything that reads or computes, behind one object that runs in a Web Worker or, where none may start, on the page. */
import { hidden } from './hidden'
import { Inputs } from './inputs'
import { allowed, whyOpaque } from './masks'
import { pooledProfile, type Profile, type Table } from './profile'
import { parseMeta, type HeadId, type Layer, type Meta, type Opened, type Tokens } from './run'
import { TensorFile } from './safetensors'
import { LeftOutError, RunError, type Source } from './source'
import { TableFile, type Columns } from './tables'
import { finish, rawScores, windowOf, type Pool, type What } from './weights'

export interface Grid {
  rows: number
  keys: number
  values: Float32Array<ArrayBuffer>
  /** Cells of a run's pooled map differ in size, as numpy.array_split cuts; those of all other grids do not. */
  cut?: 'array_split'
}

export interface Telling {
  scores: Record<string, (number | null)[]>
  show: [string, number, number] | null
}

export interface Types {
  /** For every head, strongest first. */
  types: string[][]
  values: Record<string, (number | null)[]>
  /** Type → what such a head looks at. */
  says: Record<string, string>
  unjudged: Record<string, string>
}

export interface WindowSpec extends HeadId {
  what: What
  /** Row and key indices of the head's matrix, ends exclusive. */
  queryStart: number
  queryEnd: number
  keyStart: number
  keyEnd: number
  outRows: number
  outKeys: number
  pool: Pool
}

export interface RowOf {
  raw: Float64Array
  scores: Float64Array
  weights: Float64Array
}

export interface Cell {
  raw: number
  score: number
  weight: number
  hidden: boolean
}

export interface Products {
  query: Float64Array
  key: Float64Array
}

export class Engine {
  private meta!: Meta
  private layers = new Map<string, Layer>()
  private tables = new Map<string, Promise<TableFile>>()
  private tensors = new Map<string, Promise<TensorFile>>()
  private readonly inputs = new Inputs(() => this.tensorFile('inputs.safetensors'))
  private masked = new Map<string, Uint32Array>()
  private opening: Promise<Opened> | undefined
  private told: Promise<Telling> | undefined

  /** `pause` lets other work in between: it resolves when this computation may go on, and rejects when it must stop. */
  constructor(
    private readonly source: Source,
    private readonly pause: (ticket: number) => Promise<void> | void = () => undefined,
  ) {}

  /** What a page needs first; whoever asks again gets the same. */
  open(): Promise<Opened> {
    return (this.opening ??= this.opened())
  }

  private async opened(): Promise<Opened> {
    const reading = [this.text('text.txt'), this.whole('tokens.parquet'), this.whole('head.parquet')] as const
    for (const early of reading) early.catch(() => undefined) // what is wrong with run.json says more
    this.meta = parseMeta(await this.text('run.json'))
    for (const layer of this.meta.layers) this.layers.set(`${layer.part} ${layer.layer}`, layer)
    const pair = 'text_pair.txt' in this.meta.files
    const [textPair, text, tokens, head] = await Promise.all([pair ? this.text('text_pair.txt') : null, ...reading])
    return { meta: this.meta, text, textPair, tokens: asTokens(tokens), ...asHeads(head) }
  }

  private whole(path: string): Promise<Columns> {
    return TableFile.whole(this.source, path)
  }

  /** Where this head's exact weights cannot be computed: the reason; null where they can. */
  async whyNotExact(id: HeadId): Promise<string | null> {
    const layer = this.layer(id)
    if (!layer.inputs) return 'this run was written without query and key (--no-inputs)'
    const why = whyOpaque(layer.mask)
    if (why !== null) return why
    if (layer.requires?.length) return `the formula has ${layer.requires.join(', ')}, which this viewer does not know`
    try {
      await this.inputs.touch(layer, id.head)
      return null
    } catch (error) {
      if (error instanceof LeftOutError) return error.message
      throw error
    }
  }

  async columns(table: Table, id: HeadId): Promise<Columns | null> {
    const name = `${table}.parquet`
    if (!(name in this.meta.files)) return null
    return (await this.table(name)).head(id.part, id.layer, id.head)
  }

  /** A head's rows of a table, or, where this copy of the run lacks them, its pooled profile. */
  async profile(table: Table, id: HeadId): Promise<Profile> {
    try {
      return { columns: await this.columns(table, id), pooled: 1 }
    } catch (error) {
      if (!(error instanceof LeftOutError)) throw error
      const file = await this.tensorFile('derived/profiles.safetensors').catch(() => {
        throw error
      })
      return pooledProfile(file, this.layer(id), id.head, table)
    }
  }

  /** A pooled map as the run holds it, null where it has none. */
  async map(id: HeadId, kind: Pool): Promise<Grid | null> {
    const layer = this.layer(id)
    if (!('maps.safetensors' in this.meta.files)) return null
    const file = await this.tensorFile('maps.safetensors')
    const name = `${id.part}.${id.layer}.${kind}`
    if (!file.has(name)) return null
    const [heads, rows, keys] = file.get(name).shape
    const size = rows * keys
    try {
      const values = await file.values(name, heads === 1 ? 0 : layer.heads.indexOf(id.head) * size, size)
      return this.marked(layer, { rows, keys, values: new Float32Array(values), cut: 'array_split' })
    } catch (error) {
      if (error instanceof LeftOutError) return kind === 'mean' ? this.thumbnail(id) : null
      throw error
    }
  }

  /** The small map of a head, to within 1 % of its largest cell. */
  private async thumbnail(id: HeadId): Promise<Grid | null> {
    const all = await this.thumbnails()
    const one = all.find((t) => t.id.part === id.part && t.id.layer === id.layer && t.id.head === id.head)
    return one
      ? this.marked(this.layer(id), {
          rows: one.rows,
          keys: one.keys,
          values: Float32Array.from(one.values, (v) => one.top * (v / 255) ** 2),
        })
      : null
  }

  /** The same grid, with −0 in cells in which the mask hides every pair. */
  private marked(layer: Layer, grid: Grid): Grid {
    if (whyOpaque(layer.mask) !== null) return grid
    const name = JSON.stringify([
      layer.mask,
      layer.query_len,
      layer.key_len,
      layer.query_offset,
      layer.key_offset,
      grid.cut,
    ])
    let cells = this.masked.get(`${name} ${grid.rows} ${grid.keys}`)
    if (!cells) this.masked.set(`${name} ${grid.rows} ${grid.keys}`, (cells = hidden(layer, grid)))
    for (const cell of cells) if (grid.values[cell] === 0) grid.values[cell] = -0
    return grid
  }

  /** Every head's map at 64×64, from a file that is derived from the run: bytes 0…255 of the square root of w / top. */
  async thumbnails(): Promise<{ id: HeadId; rows: number; keys: number; values: Uint8Array; top: number }[]> {
    const file = await this.tensorFile('derived/thumbnails.safetensors')
    const found = []
    for (const layer of this.meta.layers) {
      const name = `${layer.part}.${layer.layer}`
      if (!file.has(name)) continue
      const [heads, rows, keys] = file.get(name).shape
      const [values, tops] = await Promise.all([
        file.values(name, 0, heads * rows * keys),
        file.values(`${name}.top`, 0, heads),
      ])
      for (let i = 0; i < heads; i++) {
        const at = i * rows * keys
        const one = (values as Uint8Array).slice(at, at + rows * keys)
        found.push({
          id: { part: layer.part, layer: layer.layer, head: layer.heads[i] },
          rows,
          keys,
          values: one,
          top: tops[i],
        })
      }
    }
    return found
  }

  /** What each head does, and which one to open first; derived from the run in Python. */
  telling(): Promise<Telling> {
    return (this.told ??= this.text('derived/heads.json').then((text) => JSON.parse(text)))
  }

  /** Of which types each head is; derived from the run in Python. */
  async types(): Promise<Types> {
    return JSON.parse(await this.text('derived/types.json'))
  }

  async window(spec: WindowSpec, ticket: number): Promise<Grid> {
    const layer = this.layer(spec)
    const [rows, keys] = await Promise.all([
      this.inputs.rows(layer, spec.head, spec.queryStart, spec.queryEnd),
      this.inputs.keys(layer, spec.head, spec.keyStart, spec.keyEnd),
    ])
    const count = spec.queryEnd - spec.queryStart
    const values = await windowOf(layer, rows, count, keys, layer.head_dim, spec, () => this.pause(ticket))
    return { rows: Math.min(spec.outRows, count), keys: Math.min(spec.outKeys, keys.count), values }
  }

  /** One query's whole row: raw scores q·k, scores and weights. */
  async row(id: HeadId, query: number): Promise<RowOf> {
    const layer = this.layer(id)
    const [rows, keys] = await Promise.all([
      this.inputs.rows(layer, id.head, query, query + 1),
      this.inputs.keys(layer, id.head, 0, layer.key_len),
    ])
    const raw = new Float64Array(keys.count)
    rawScores(rows, 0, 1, keys, layer.head_dim, raw)
    const scores = raw.slice()
    const weights = raw.slice()
    finish('raw', layer, rows, 0, 1, keys, raw)
    finish('scores', layer, rows, 0, 1, keys, scores)
    finish('weights', layer, rows, 0, 1, keys, weights)
    return { raw, scores, weights }
  }

  /** One pair: its raw score, score and weight, and whether the mask hides it. */
  async cell(id: HeadId, query: number, key: number): Promise<Cell> {
    const layer = this.layer(id)
    const [rows, keys] = await Promise.all([
      this.inputs.rows(layer, id.head, query, query + 1),
      this.inputs.keys(layer, id.head, key, key + 1),
    ])
    const value = new Float64Array(1)
    const of = (what: What) => {
      rawScores(rows, 0, 1, keys, layer.head_dim, value)
      finish(what, layer, rows, 0, 1, keys, value)
      return value[0]
    }
    const may = new Uint8Array(1)
    allowed(layer.mask, rows.position, keys.position, 1, may)
    return { raw: of('raw'), score: of('scores'), weight: of('weights'), hidden: !may[0] }
  }

  /** The vectors of one pair. */
  async pair(id: HeadId, query: number, key: number): Promise<Products> {
    const layer = this.layer(id)
    const [rows, keys] = await Promise.all([
      this.inputs.rows(layer, id.head, query, query + 1),
      this.inputs.keys(layer, id.head, key, key + 1),
    ])
    return {
      query: Float64Array.from(rows.query.subarray(0, layer.head_dim)),
      key: Float64Array.from(keys.key.subarray(0, layer.head_dim)),
    }
  }

  /** ‖v‖ of every key; null where the run does not hold it. */
  async valueNorms(id: HeadId): Promise<Float32Array | null> {
    return this.inputs.norms(this.layer(id), id.head)
  }

  /** Reads a head's query and key before a window asks for them. */
  async warm(id: HeadId): Promise<null> {
    await this.inputs.warm(this.layer(id), id.head)
    return null
  }

  private layer(id: HeadId): Layer {
    const layer = this.layers.get(`${id.part} ${id.layer}`)
    if (!layer || !layer.heads.includes(id.head))
      throw new RunError(`this run has no head ${id.part} ${id.layer}.${id.head}`)
    return layer
  }

  private tensorFile(path: string): Promise<TensorFile> {
    return once(this.tensors, path, () => TensorFile.open(this.source, path))
  }

  private table(path: string): Promise<TableFile> {
    const entry = this.meta.files[path]
    if (!entry) return Promise.reject(new RunError(`run.json lists no ${path}`))
    return once(this.tables, path, () => TableFile.open(this.source, path, entry.bytes))
  }

  private async text(path: string): Promise<string> {
    return new TextDecoder().decode(await this.source.read(path, 0, null))
  }
}

function once<T>(made: Map<string, Promise<T>>, name: string, make: () => Promise<T>): Promise<T> {
  let promise = made.get(name)
  if (!promise) {
    promise = make()
    made.set(name, promise)
    promise.catch(() => made.delete(name))
  }
  return promise
}

function asTokens(columns: Columns): Tokens {
  const position = columns.position as Float64Array
  const count = position.length
  return {
    count,
    position,
    label: columns.text as string[],
    start: columns.start as Float64Array,
    end: columns.end as Float64Array,
    special: columns.special as unknown as boolean[],
    segment: columns.segment as Float64Array,
    word: columns.word as Float64Array,
    sequence: (columns.sequence as string[] | undefined) ?? new Array<string>(count).fill('text'),
  }
}

function asHeads(columns: Columns): { headTable: Record<string, Float64Array>; heads: HeadId[] } {
  const part = columns.part as string[]
  const layer = columns.layer as Float64Array
  const head = columns.head as Float64Array
  const headTable: Record<string, Float64Array> = {}
  for (const [name, values] of Object.entries(columns)) {
    if (values instanceof Float64Array && name !== 'layer' && name !== 'head') headTable[name] = values
  }
  const heads = part.map((name, i) => ({ part: name, layer: layer[i], head: head[i] }))
  return { headTable, heads }
}
