/**
 * The one seam between the viewer and where a run lives: a served folder, one HTML file, or a notebook's kernel.
 * `end` is exclusive; null means to the end of the file.
 */
export interface Source {
  read(path: string, start: number, end: number | null): Promise<Uint8Array>
  /** An address under which a worker reads the same files by itself, without the page's thread; absent where none is. */
  at?: string
}

/** Bytes that this copy of the run does not hold: an exported file within a byte budget leaves some heads out. */
export class LeftOutError extends Error {
  override name = 'LeftOutError'
}

/** The run cannot be read: a file is missing, truncated, or not what the format says. */
export class RunError extends Error {
  override name = 'RunError'
}
