/** The map on a plain canvas, for browsers without WebGL2: the same picture from the same numbers. */
import { share } from './colour'
import { HATCH, type Colour, type Layered, type Renderer, type Scene } from './renderer'

type Look = Pick<Scene, 'domain' | 'table' | 'veils'>

interface Drawn {
  key: string
  image: HTMLCanvasElement
  /** Opaque where the mask hides; null where it hides nothing. */
  hidden: HTMLCanvasElement | null
}

export function plain(canvas: HTMLCanvasElement): Renderer {
  const context = canvas.getContext('2d', { alpha: false })!
  const images = new Map<Float32Array, Drawn>()
  const sheet = document.createElement('canvas')
  return {
    kind: 'canvas',
    draw({ grids, view, domain, table, veils }) {
      context.imageSmoothingEnabled = false
      context.fillStyle = `rgb(${table[0]} ${table[1]} ${table[2]})`
      context.fillRect(0, 0, canvas.width, canvas.height)
      const key = `${domain.low} ${domain.high} ${domain.log} ${table.slice(0, 512).join()}`
      const x = canvas.width / (view.k1 - view.k0)
      const y = canvas.height / (view.q1 - view.q0)
      for (const grid of grids) {
        let drawn = images.get(grid.values)
        if (drawn?.key !== key) {
          drawn = { key, ...coloured(grid, { domain, table, veils }) }
          images.set(grid.values, drawn)
        }
        const place = [
          (grid.k0 - view.k0) * x,
          (grid.q0 - view.q0) * y,
          (grid.k1 - grid.k0) * x,
          (grid.q1 - grid.q0) * y,
        ] as const
        context.drawImage(drawn.image, ...place)
        if (drawn.hidden) context.drawImage(hatched(sheet, canvas, drawn.hidden, place, veils.hatch), 0, 0)
      }
      for (const values of images.keys()) if (!grids.some((grid) => grid.values === values)) images.delete(values)
    },
    dispose: () => images.clear(),
  }
}

/** The lines of the hatch, where a picture is opaque, at their places on the whole canvas. */
function hatched(
  sheet: HTMLCanvasElement,
  { width, height }: HTMLCanvasElement,
  hidden: HTMLCanvasElement,
  place: readonly [number, number, number, number],
  [red, green, blue]: Colour,
): HTMLCanvasElement {
  sheet.width = width // which also clears it
  sheet.height = height
  const context = sheet.getContext('2d')!
  const tile = document.createElement('canvas')
  tile.width = tile.height = HATCH.step
  const pen = tile.getContext('2d')!
  pen.fillStyle = `rgb(${red} ${green} ${blue})`
  // rows are counted from the bottom, as WebGL counts them
  for (let row = 0; row < HATCH.step; row++)
    for (let i = 0; i < HATCH.line; i++) pen.fillRect((height - 1 - row + i + HATCH.step) % HATCH.step, row, 1, 1)
  context.imageSmoothingEnabled = false
  context.drawImage(hidden, ...place)
  context.globalCompositeOperation = 'source-in'
  context.fillStyle = context.createPattern(tile, 'repeat')!
  context.fillRect(0, 0, width, height)
  return sheet
}

function coloured(grid: Layered, { domain, table, veils }: Look): Omit<Drawn, 'key'> {
  const made = () => {
    const image = document.createElement('canvas')
    image.width = grid.keys
    image.height = grid.rows
    return image
  }
  const [image, over] = [made(), made()]
  const pixels = new ImageData(grid.keys, grid.rows)
  const hidden = new ImageData(grid.keys, grid.rows)
  let some = false
  for (let i = 0; i < grid.values.length; i++) {
    const value = grid.values[i]
    if (Number.isNaN(value)) pixels.data.set([...veils.missing, 255], 4 * i)
    else if (Object.is(value, -0)) {
      pixels.data.set([...veils.ground, 255], 4 * i)
      hidden.data[4 * i + 3] = 255
      some = true
    } else {
      const at = 4 * Math.floor(Math.min(1, Math.max(0, share(value, domain))) * 255 + 0.5)
      pixels.data[4 * i] = table[at]
      pixels.data[4 * i + 1] = table[at + 1]
      pixels.data[4 * i + 2] = table[at + 2]
      pixels.data[4 * i + 3] = 255
    }
  }
  image.getContext('2d')!.putImageData(pixels, 0, 0)
  if (some) over.getContext('2d')!.putImageData(hidden, 0, 0)
  return { image, hidden: some ? over : null }
}
