import { LeftOutError, RunError, type Source } from './source'

/** One stretch of a file that the page holds: where it starts, how long it is, the element with its base64 text. */
export type Chunk = [start: number, length: number, id: string, packed: 0 | 1]

/** Why a page within a size lacks the exact weights of a head. */
export const LEFT_OUT = 'this file does not hold its query and key, to stay within its size'

const whyLeftOut = (path: string): string =>
  path === 'inputs.safetensors'
    ? LEFT_OUT
    : path.endsWith('.parquet')
      ? `this file does not hold this head’s ${path.replace('.parquet', '')} table, to stay within its size`
      : `this file does not hold all of ${path}, to stay within its size`

export interface InsideFile {
  size: number
  chunks: Chunk[]
}

/** Files inside the page itself. A file may have holes: what the byte budget left out. */
export function inside(files: Record<string, InsideFile>, textOf: (id: string) => string | null): Source {
  const kept = new Map<string, Promise<Uint8Array>>()
  const bytesOf = (id: string, packed: 0 | 1) => {
    let bytes = kept.get(id)
    if (!bytes) {
      bytes = unpack(textOf(id), packed)
      kept.set(id, bytes)
    }
    return bytes
  }
  return {
    async read(path, start, end) {
      const file = files[path]
      if (!file) throw new LeftOutError(whyLeftOut(path))
      const stop = Math.min(end ?? file.size, file.size)
      const out = new Uint8Array(Math.max(0, stop - start))
      let at = start
      for (const [first, length, id, packed] of file.chunks) {
        if (first + length <= at) continue
        if (at >= stop) break
        if (first > at) break
        const bytes = await bytesOf(id, packed)
        const last = Math.min(stop, first + length)
        out.set(bytes.subarray(at - first, last - first), at - start)
        at = last
      }
      if (at < stop) throw new LeftOutError(whyLeftOut(path))
      return out
    },
  }
}

/** By the browser itself where it can, which keeps the page's thread free. */
function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const own = Uint8Array as typeof Uint8Array & { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }
  if (own.fromBase64) return own.fromBase64(text)
  const binary = atob(text)
  const bytes = new Uint8Array(binary.length)
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i)
  return bytes
}

async function unpack(text: string | null, packed: 0 | 1): Promise<Uint8Array> {
  if (text === null) throw new RunError('the file is truncated: a block of data is missing')
  const bytes = fromBase64(text)
  if (!packed) return bytes
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
  return new Uint8Array(await new Response(stream).arrayBuffer())
}
