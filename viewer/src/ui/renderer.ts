/** Draws grids of numbers through a colour table: by WebGL2, or on a plain canvas with the same result. */
import type { Domain } from './colour'
import type { View } from './state'

/** Numbers that cover rows q0…q1 and keys k0…k1 of the matrix, `rows × keys` cells. */
export interface Layered {
  q0: number
  q1: number
  k0: number
  k1: number
  rows: number
  keys: number
  values: Float32Array<ArrayBuffer>
}

export interface Scene {
  /** From the bottom up. */
  grids: Layered[]
  view: View
  domain: Domain
  table: Uint8Array<ArrayBuffer>
  veils: Veils
}

export type Colour = [number, number, number]

/** What is drawn where there is no weight: rows that were left out (NaN), and pairs that the mask hides (−0), hatched. */
export interface Veils {
  missing: Colour
  ground: Colour
  hatch: Colour
}

/** Device pixels from one line of the hatch to the next, and how many of them the line takes, along a row. */
export const HATCH = { step: 8, line: 2 }

export interface Renderer {
  readonly kind: 'webgl2' | 'canvas'
  draw(scene: Scene): void
  dispose(): void
}

/** Redraws a canvas so that its pixels can be read at once. */
export const redraws = new WeakMap<HTMLCanvasElement, () => void>()

export function webgl(canvas: HTMLCanvasElement): Renderer | null {
  const gl = canvas.getContext('webgl2', { antialias: false, alpha: false, powerPreference: 'low-power' })
  if (!gl) return null
  const program = gl.createProgram()
  for (const [type, source] of [
    [gl.VERTEX_SHADER, VERTEX],
    [gl.FRAGMENT_SHADER, FRAGMENT],
  ] as const) {
    const shader = gl.createShader(type)!
    gl.shaderSource(shader, source)
    gl.compileShader(shader)
    gl.attachShader(program, shader)
  }
  gl.linkProgram(program)
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return null
  const uniform = (name: string) => gl.getUniformLocation(program, name)
  const at = {
    box: uniform('box'),
    domain: uniform('domain'),
    log: uniform('logarithmic'),
    missing: uniform('missing'),
    ground: uniform('ground'),
    hatch: uniform('hatch'),
  }
  const largest = gl.getParameter(gl.MAX_TEXTURE_SIZE) as number
  const textures = new Map<Float32Array, WebGLTexture>()
  const colours = gl.createTexture()
  gl.useProgram(program)
  gl.uniform1i(uniform('numbers'), 0)
  gl.uniform1i(uniform('colours'), 1)
  gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1)

  const nearest = () => {
    for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, name, gl.NEAREST)
    for (const name of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, name, gl.CLAMP_TO_EDGE)
  }
  const upload = (grid: Layered) => {
    const texture = gl.createTexture()
    gl.bindTexture(gl.TEXTURE_2D, texture)
    nearest()
    // neither NaN nor −0 is sure to survive a texture; no weight, score or difference is as large as these marks
    const values = grid.values.slice()
    for (let i = 0; i < values.length; i++) {
      if (Number.isNaN(values[i])) values[i] = 3e38
      else if (values[i] === 0 && Object.is(values[i], -0)) values[i] = -3e38
    }
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R32F, grid.keys, grid.rows, 0, gl.RED, gl.FLOAT, values)
    textures.set(grid.values, texture)
    return texture
  }

  return {
    kind: 'webgl2',
    draw({ grids, view, domain, table, veils }) {
      gl.viewport(0, 0, canvas.width, canvas.height)
      gl.activeTexture(gl.TEXTURE1)
      gl.bindTexture(gl.TEXTURE_2D, colours)
      nearest()
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, table)
      gl.clearColor(table[0] / 255, table[1] / 255, table[2] / 255, 1)
      gl.clear(gl.COLOR_BUFFER_BIT)
      gl.uniform2f(at.domain, domain.low, domain.high)
      gl.uniform1i(at.log, domain.log ? 1 : 0)
      for (const name of ['missing', 'ground', 'hatch'] as const)
        gl.uniform3f(at[name], ...(veils[name].map((v) => v / 255) as Colour))
      gl.activeTexture(gl.TEXTURE0)
      const width = view.k1 - view.k0
      const height = view.q1 - view.q0
      for (const grid of grids) {
        if (grid.keys > largest || grid.rows > largest) continue
        gl.bindTexture(gl.TEXTURE_2D, textures.get(grid.values) ?? upload(grid))
        gl.uniform4f(
          at.box,
          (2 * (grid.k0 - view.k0)) / width - 1,
          1 - (2 * (grid.q0 - view.q0)) / height,
          (2 * (grid.k1 - grid.k0)) / width,
          (-2 * (grid.q1 - grid.q0)) / height,
        )
        gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4)
      }
      for (const [values, texture] of textures) {
        if (grids.some((grid) => grid.values === values)) continue
        gl.deleteTexture(texture)
        textures.delete(values)
      }
    },
    dispose() {
      gl.getExtension('WEBGL_lose_context')?.loseContext()
    },
  }
}

const VERTEX = `#version 300 es
uniform vec4 box;
out vec2 place;
void main() {
  place = vec2(float(gl_VertexID & 1), float(gl_VertexID >> 1));
  gl_Position = vec4(box.xy + place * box.zw, 0.0, 1.0);
}`

const FRAGMENT = `#version 300 es
precision highp float;
uniform highp sampler2D numbers;
uniform sampler2D colours;
uniform vec2 domain;
uniform bool logarithmic;
uniform vec3 missing;
uniform vec3 ground;
uniform vec3 hatch;
in vec2 place;
out vec4 colour;
void main() {
  float value = texture(numbers, place).r;
  if (value > 2e38) {
    colour = vec4(missing, 1.0);
    return;
  }
  if (value < -2e38) {
    bool line = mod(floor(gl_FragCoord.x) - floor(gl_FragCoord.y), ${HATCH.step}.0) < ${HATCH.line}.0;
    colour = vec4(line ? hatch : ground, 1.0);
    return;
  }
  float share = logarithmic
    ? (value <= domain.x ? 0.0 : log(value / domain.x) / log(domain.y / domain.x))
    : (value - domain.x) / (domain.y - domain.x);
  int index = int(floor(clamp(share, 0.0, 1.0) * 255.0 + 0.5));
  colour = texelFetch(colours, ivec2(index, 0), 0);
}`
