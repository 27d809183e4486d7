import { RunError, type Source } from './source'

/** Files of one run on the local server, by byte range; `otherwise` is asked where this thread may not reach it. */
export function served(base: string, otherwise?: Source): Source {
  return {
    at: base,
    async read(path, start, end) {
      const headers: Record<string, string> = {}
      if (start > 0 || end !== null) {
        if (end !== null && end <= start) return new Uint8Array(0)
        headers.Range = `bytes=${start}-${end === null ? '' : end - 1}`
      }
      let response: Response
      try {
        response = await fetch(base + path, { headers })
      } catch {
        if (otherwise) return otherwise.read(path, start, end)
        throw new RunError(
          'the server does not answer: `heedmap view` has ended, or the file changed while it was read',
        )
      }
      if (response.status === 416) return new Uint8Array(0)
      if (!response.ok) throw new RunError(`${path}: ${(await response.text()).trim() || response.statusText}`)
      return new Uint8Array(await response.arrayBuffer())
    },
  }
}
