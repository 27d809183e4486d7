import { LeftOutError, RunError, type Source } from './source'

export type Kind = 'F64' | 'F32' | 'F16' | 'BF16' | 'I32' | 'U8'

export interface Tensor {
  kind: Kind
  shape: number[]
  /** First byte of the data in the file. */
  start: number
}

const BYTES: Record<Kind, number> = { F64: 8, F32: 4, F16: 2, BF16: 2, I32: 4, U8: 1 }
const FIRST_READ = 64 * 1024

/** Reads the header of a safetensors file, and parts of its tensors, by byte range; never the whole file. */
export class TensorFile {
  private constructor(
    private readonly source: Source,
    readonly path: string,
    readonly tensors: Map<string, Tensor>,
  ) {}

  static async open(source: Source, path: string): Promise<TensorFile> {
    let bytes = await source.read(path, 0, FIRST_READ).catch((error: unknown) => {
      if (error instanceof LeftOutError) return source.read(path, 0, 8) // the data behind the header were left out
      throw error
    })
    if (bytes.length < 8) throw new RunError(`${path} is truncated: ${bytes.length} bytes`)
    const view = new DataView(bytes.buffer, bytes.byteOffset, 8)
    const length = view.getUint32(0, true) + view.getUint32(4, true) * 2 ** 32
    if (length > 100_000_000) throw new RunError(`${path} has no safetensors header`)
    if (bytes.length < 8 + length) bytes = await source.read(path, 0, 8 + length)
    if (bytes.length < 8 + length) throw new RunError(`${path} is truncated within its header`)
    let header: Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>
    try {
      header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)))
    } catch {
      throw new RunError(`the header of ${path} is not JSON`)
    }
    const tensors = new Map<string, Tensor>()
    for (const [name, entry] of Object.entries(header)) {
      if (name === '__metadata__') continue
      if (!(entry.dtype in BYTES)) throw new RunError(`${path}: ${name} has the unknown type ${entry.dtype}`)
      tensors.set(name, { kind: entry.dtype as Kind, shape: entry.shape, start: 8 + length + entry.data_offsets[0] })
    }
    return new TensorFile(source, path, tensors)
  }

  has(name: string): boolean {
    return this.tensors.has(name)
  }

  get(name: string): Tensor {
    const tensor = this.tensors.get(name)
    if (!tensor) throw new RunError(`${this.path} has no tensor ${name}`)
    return tensor
  }

  /** `count` values from `offset` on, counted in values from the tensor's first, as numbers. */
  async values(
    name: string,
    offset: number,
    count: number,
  ): Promise<Float32Array | Float64Array | Int32Array | Uint8Array> {
    const tensor = this.get(name)
    const size = BYTES[tensor.kind]
    const start = tensor.start + offset * size
    const bytes = await this.source.read(this.path, start, start + count * size)
    if (bytes.length !== count * size) throw new RunError(`${this.path} is truncated in ${name}`)
    return decode(tensor.kind, bytes)
  }
}

/** Little-endian bytes as numbers; half floats and bfloat16 become float32, which holds them exactly. */
export function decode(kind: Kind, bytes: Uint8Array): Float32Array | Float64Array | Int32Array | Uint8Array {
  if (kind === 'U8') return bytes
  const aligned = bytes.byteOffset % BYTES[kind] === 0 ? bytes : bytes.slice()
  const { buffer, byteOffset } = aligned
  const count = bytes.length / BYTES[kind]
  if (kind === 'F32') return new Float32Array(buffer, byteOffset, count)
  if (kind === 'F64') return new Float64Array(buffer, byteOffset, count)
  if (kind === 'I32') return new Int32Array(buffer, byteOffset, count)
  const bits = new Uint16Array(buffer, byteOffset, count)
  if (kind === 'BF16') {
    const wide = new Uint32Array(count)
    for (let i = 0; i < count; i++) wide[i] = bits[i] << 16
    return new Float32Array(wide.buffer)
  }
  const table = halfTable()
  const numbers = new Float32Array(count)
  for (let i = 0; i < count; i++) numbers[i] = table[bits[i]]
  return numbers
}

let halves: Float32Array | undefined

function halfTable(): Float32Array {
  if (halves) return halves
  halves = new Float32Array(65536)
  for (let bits = 0; bits < 65536; bits++) {
    const sign = bits & 0x8000 ? -1 : 1
    const exponent = (bits >> 10) & 31
    const fraction = bits & 1023
    halves[bits] =
      exponent === 31
        ? fraction
          ? NaN
          : sign * Infinity
        : exponent === 0
          ? sign * fraction * 2 ** -24
          : sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
  }
  return halves
}
