/** Colour tables of even steps: paths through OKLab, resampled so that each step looks equally large. */

export type Rgb = [number, number, number]
type Lch = [lightness: number, chroma: number, hue: number]

export type Theme = 'light' | 'dark'

/** From the page's own paper to deep indigo; lightness alone tells the value, so that no colour vision is needed. */
const SEQUENTIAL: Record<Theme, Lch[]> = {
  light: [
    [0.978, 0.006, 120],
    [0.87, 0.08, 170],
    [0.69, 0.105, 208],
    [0.49, 0.115, 252],
    [0.27, 0.1, 282],
  ],
  dark: [
    [0.235, 0.008, 265],
    [0.39, 0.105, 280],
    [0.57, 0.115, 245],
    [0.77, 0.11, 195],
    [0.955, 0.085, 125],
  ],
}

/** Blue for less, paper for equal, orange for more. */
const DIVERGING: Record<Theme, [Lch[], Lch[]]> = {
  light: [
    [
      [0.978, 0, 0],
      [0.75, 0.09, 245],
      [0.42, 0.12, 260],
    ],
    [
      [0.978, 0, 0],
      [0.75, 0.105, 60],
      [0.42, 0.105, 45],
    ],
  ],
  dark: [
    [
      [0.235, 0, 0],
      [0.52, 0.11, 255],
      [0.85, 0.08, 230],
    ],
    [
      [0.235, 0, 0],
      [0.52, 0.105, 50],
      [0.85, 0.095, 75],
    ],
  ],
}

/** Where there is no weight to draw: rows that were left out, and pairs that the mask hides, which are hatched. */
export const VEILS: Record<Theme, { missing: Rgb; ground: Rgb; hatch: Rgb }> = {
  light: { missing: [213, 215, 211], ground: [241, 242, 239], hatch: [224, 226, 222] },
  dark: { missing: [66, 70, 77], ground: [21, 23, 27], hatch: [42, 46, 52] },
}

/** Types of heads: one family of hues for what they share, told apart with any colour vision (after Okabe and Ito). */
export const KIND_COLOURS: Record<string, string> = {
  induction: '#b3400a',
  duplicate: '#ea8a4f',
  previous: '#0072b2',
  next: '#56b4e9',
  positional: '#2f4b7c',
  self: '#007a5a',
  local: '#66c2a5',
  first: '#e69f00',
  sink: '#f3d06b',
  separator: '#a67c00',
  punctuation: '#7a6a3a',
  broad: '#cc79a7',
  none: '#9a9ea5',
}

export function oklab([l, c, h]: Lch): Rgb {
  const angle = (h * Math.PI) / 180
  return [l, c * Math.cos(angle), c * Math.sin(angle)]
}

export function toSrgb([l, a, b]: Rgb): Rgb {
  const x = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3
  const y = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3
  const z = (l - 0.0894841775 * a - 1.291485548 * b) ** 3
  const linear: Rgb = [
    4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z,
    -1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z,
    -0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z,
  ]
  return linear.map((v) => {
    const clipped = Math.min(1, Math.max(0, v))
    return Math.round(255 * (clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055))
  }) as Rgb
}

/** Points evenly spaced by distance along a smooth path through the given colours. */
export function path(points: Lch[], count: number): Rgb[] {
  const lab = points.map(oklab)
  const fine: Rgb[] = []
  const steps = 200
  for (let i = 0; i < lab.length - 1; i++) {
    const [p0, p1, p2, p3] = [lab[Math.max(0, i - 1)], lab[i], lab[i + 1], lab[Math.min(lab.length - 1, i + 2)]]
    for (let s = i ? 1 : 0; s <= steps; s++) {
      const t = s / steps
      fine.push(
        p1.map((_, d) => {
          const [a, b, c, e] = [p0[d], p1[d], p2[d], p3[d]]
          return 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - e) * t * t + (3 * b - a - 3 * c + e) * t ** 3)
        }) as Rgb,
      )
    }
  }
  const length = [0]
  for (let i = 1; i < fine.length; i++)
    length.push(length[i - 1] + Math.hypot(...fine[i].map((v, d) => v - fine[i - 1][d])))
  const total = length[length.length - 1]
  const even: Rgb[] = []
  let at = 0
  for (let i = 0; i < count; i++) {
    const target = (total * i) / (count - 1)
    while (at < fine.length - 2 && length[at + 1] < target) at++
    const share = length[at + 1] > length[at] ? (target - length[at]) / (length[at + 1] - length[at]) : 0
    even.push(fine[at].map((v, d) => v + share * (fine[at + 1][d] - v)) as Rgb)
  }
  return even
}

const tables = new Map<string, Uint8Array<ArrayBuffer>>()

/** 256 colours, RGBA. */
export function palette(kind: 'sequential' | 'diverging', theme: Theme): Uint8Array<ArrayBuffer> {
  const name = `${kind} ${theme}`
  let table = tables.get(name)
  if (!table) {
    const labs =
      kind === 'sequential'
        ? path(SEQUENTIAL[theme], 256)
        : [...path(DIVERGING[theme][0], 128).reverse(), ...path(DIVERGING[theme][1], 128)]
    table = new Uint8Array(1024)
    labs.forEach((lab, i) => table!.set([...toSrgb(lab), 255], 4 * i))
    tables.set(name, table)
  }
  return table
}

/** The colour at a share 0…1 of the table. */
export function css(table: Uint8Array, share: number): string {
  const at = 4 * Math.round(255 * Math.min(1, Math.max(0, share)))
  return `rgb(${table[at]} ${table[at + 1]} ${table[at + 2]})`
}

/** Dark or light letters, whichever can be read on the colour at this share. */
export function inkOn(table: Uint8Array, share: number): string {
  const at = 4 * Math.round(255 * Math.min(1, Math.max(0, share)))
  return inkFor([table[at], table[at + 1], table[at + 2]])
}

/** The same for a colour written as `#rrggbb`. */
export function inkOnHex(colour: string): string {
  return inkFor([1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) as Rgb)
}

function inkFor(colour: Rgb): string {
  const linear = colour.map((byte) => {
    const v = byte / 255
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4
  })
  const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
  return luminance > 0.22 ? '#15181c' : luminance > 0.179 ? '#000000' : '#ffffff'
}

/** How a value becomes a share of the colour table. */
export interface Domain {
  low: number
  high: number
  log: boolean
}

export function share(value: number, { low, high, log }: Domain): number {
  if (!(high > low)) return 0
  if (!log) return (value - low) / (high - low)
  return value <= low ? 0 : Math.log(value / low) / Math.log(high / low)
}

/** A range of weights whose top is a round number not below the largest value; four decades where it is logarithmic. */
export function domainOf(largest: number, log: boolean): Domain {
  const top = largest > 0 ? largest : 1
  const decade = 10 ** Math.floor(Math.log10(top))
  const high = ([1, 2, 5, 10].find((m) => m * decade >= top * 0.999) ?? 10) * decade
  return { low: log ? high * 1e-4 : 0, high, log }
}
