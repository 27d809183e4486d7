import { parquetMetadataAsync, parquetRead, type AsyncBuffer, type FileMetaData } from 'hyparquet'
import { LeftOutError, RunError, type Source } from './source'

export type Column = Float64Array | string[] | boolean[]
export type Columns = Record<string, Column>

/** One Parquet file of a run, read one row group (one head) at a time. */
export class TableFile {
  private groups = new Map<string, { start: number; rows: number; from: number; to: number }>()

  private constructor(
    private readonly source: Source,
    readonly path: string,
    private readonly bytes: number,
    private readonly metadata: FileMetaData,
  ) {
    let start = 0
    for (const group of metadata.row_groups) {
      const rows = Number(group.num_rows)
      let from = Infinity
      let to = 0
      const key: string[] = []
      for (const column of group.columns) {
        const data = column.meta_data
        if (!data) throw new RunError(`${path} has columns outside the file`)
        const first = Number(data.dictionary_page_offset || data.data_page_offset)
        from = Math.min(from, first)
        to = Math.max(to, first + Number(data.total_compressed_size))
        const name = data.path_in_schema[0]
        if (name === 'part' || name === 'layer' || name === 'head') key.push(String(data.statistics?.min_value))
      }
      this.groups.set(key.join(' '), { start, rows, from, to })
      start += rows
    }
  }

  static async open(source: Source, path: string, bytes: number): Promise<TableFile> {
    try {
      const metadata = await parquetMetadataAsync(buffer(source, path, bytes))
      return new TableFile(source, path, bytes, metadata)
    } catch (error) {
      throw told(error, path)
    }
  }

  /** All rows of a small file, which is read at once. */
  static async whole(source: Source, path: string): Promise<Columns> {
    const bytes = await source.read(path, 0, null)
    const here = {
      read: async (_: string, start: number, end: number | null) => bytes.subarray(start, end ?? undefined),
    }
    const file = await TableFile.open(here, path, bytes.length)
    return file.read(0, Number(file.metadata.num_rows), 0, bytes.length)
  }

  get columns(): string[] {
    return this.metadata.schema
      .slice(1)
      .filter((e) => e.name !== 'list' && e.name !== 'element')
      .map((e) => e.name)
  }

  /** The rows of one head; empty columns where the table has none. */
  async head(part: string, layer: number, head: number): Promise<Columns | null> {
    const group = this.groups.get(`${part} ${layer} ${head}`)
    if (!group) return null
    return this.read(group.start, group.start + group.rows, group.from, group.to)
  }

  private async read(rowStart: number, rowEnd: number, from: number, to: number): Promise<Columns> {
    const whole = await this.source.read(this.path, from, to)
    const file: AsyncBuffer = {
      byteLength: this.bytes,
      slice: (start, end = this.bytes) => whole.slice(start - from, end - from).buffer as ArrayBuffer,
    }
    const result: Columns = {}
    const count = rowEnd - rowStart
    try {
      await parquetRead({
        file,
        metadata: this.metadata,
        rowStart,
        rowEnd,
        onChunk: ({ columnName, columnData, rowStart: at }) => {
          const first = at - rowStart
          if (typeof columnData[0] === 'string' || typeof columnData[0] === 'boolean') {
            const column = (result[columnName] ??= new Array(count) as string[]) as unknown[]
            for (let i = 0; i < columnData.length; i++) column[first + i] = columnData[i]
          } else if (!Array.isArray(columnData[0])) {
            const column = (result[columnName] ??= new Float64Array(count).fill(NaN)) as Float64Array
            for (let i = 0; i < columnData.length; i++) {
              const value = columnData[i]
              column[first + i] = value === null || value === undefined ? NaN : Number(value)
            }
          }
        },
      })
    } catch (error) {
      throw told(error, this.path)
    }
    return result
  }
}

function buffer(source: Source, path: string, byteLength: number): AsyncBuffer {
  return {
    byteLength,
    slice: async (start, end = byteLength) => {
      const bytes = await source.read(path, start < 0 ? byteLength + start : start, end)
      return bytes.slice().buffer as ArrayBuffer
    },
  }
}

function told(error: unknown, path: string): Error {
  if (error instanceof LeftOutError || error instanceof RunError) return error
  return new RunError(`${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`)
}
