import { open, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { RunError, type Source } from '../src/data/source'

/** Files of a folder by byte range, as the server gives them. */
export function folder(path: string): Source & { reads: [string, number][] } {
  const reads: [string, number][] = []
  return {
    reads,
    async read(name, start, end) {
      const file = join(path, name)
      const size = await stat(file).then(
        (s) => s.size,
        () => -1,
      )
      if (size < 0) throw new RunError(`${name} is missing`)
      const stop = Math.min(end ?? size, size)
      reads.push([name, stop - start])
      const handle = await open(file)
      const buffer = new Uint8Array(Math.max(0, stop - start))
      await handle.read(buffer, 0, buffer.length, start)
      await handle.close()
      return buffer
    },
  }
}

export async function numbers(path: string): Promise<Record<string, never>> {
  return JSON.parse(await readFile(path, 'utf8'), (_, value) =>
    value === 'nan' ? NaN : value === 'inf' ? Infinity : value === '-inf' ? -Infinity : value,
  )
}
