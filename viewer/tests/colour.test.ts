import { expect, test } from 'vitest'
import { css, domainOf, inkOn, palette, share, toSrgb, type Theme } from '../src/ui/colour'

const themes: Theme[] = ['light', 'dark']

/** OKLab of an sRGB colour. */
function lab(r: number, g: number, b: number): number[] {
  const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
  const l = Math.cbrt(0.4122214708 * x + 0.5363325363 * y + 0.0514459929 * z)
  const m = Math.cbrt(0.2119034982 * x + 0.6806995451 * y + 0.1073969566 * z)
  const s = Math.cbrt(0.0883024619 * x + 0.2817188376 * y + 0.6299787005 * z)
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ]
}

const colours = (table: Uint8Array) =>
  Array.from({ length: 256 }, (_, i) => lab(table[4 * i], table[4 * i + 1], table[4 * i + 2]))

test.each(themes)('every eighth of the %s map is as large a step as any other', (theme) => {
  const points = colours(palette('sequential', theme)).filter((_, i) => i % 32 === 0 || i === 255)
  const steps = points.slice(1).map((p, i) => Math.hypot(...p.map((v, d) => v - points[i][d])))
  expect(Math.max(...steps) / Math.min(...steps)).toBeLessThan(1.12)
})

test.each(themes)('lightness alone tells the value in the %s map, so no colour vision is needed', (theme) => {
  const lightness = colours(palette('sequential', theme)).map((p) => p[0])
  const sign = theme === 'light' ? -1 : 1
  for (let i = 8; i < 256; i++) expect(sign * (lightness[i] - lightness[i - 8])).toBeGreaterThan(0.005)
})

test.each(themes)('the %s difference map is neutral in the middle and equally far from it at both ends', (theme) => {
  const points = colours(palette('diverging', theme))
  expect(Math.hypot(points[127][1], points[127][2])).toBeLessThan(0.01)
  expect(Math.abs(points[0][0] - points[255][0])).toBeLessThan(0.03)
})

test.each(themes)('letters on every colour of the %s map have a contrast of at least 4.5', (theme) => {
  const table = palette('sequential', theme)
  const luminance = (rgb: number[]) => {
    const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  for (let i = 0; i < 256; i++) {
    const ink = inkOn(table, i / 255)
    const letters = luminance([1, 3, 5].map((at) => parseInt(ink.slice(at, at + 2), 16)))
    const paper = luminance([...table.subarray(4 * i, 4 * i + 3)])
    const [low, high] = [letters, paper].sort((a, b) => a - b)
    expect((high + 0.05) / (low + 0.05)).toBeGreaterThanOrEqual(4.5)
  }
})

test('a range ends at a round number, and spans four decades where it is logarithmic', () => {
  expect(domainOf(0.37, false)).toEqual({ low: 0, high: 0.5, log: false })
  expect(domainOf(1, true)).toEqual({ low: 1e-4, high: 1, log: true })
  expect(domainOf(0, false).high).toBe(1)
})

test('shares run from the lowest to the highest value', () => {
  expect(share(0.25, { low: 0, high: 0.5, log: false })).toBe(0.5)
  expect(share(0.01, { low: 1e-4, high: 1, log: true })).toBeCloseTo(0.5)
  expect(share(0, { low: 1e-4, high: 1, log: true })).toBe(0)
})

test('colours are written as CSS and stay inside the table', () => {
  expect(css(palette('sequential', 'light'), 7)).toBe(css(palette('sequential', 'light'), 1))
  expect(toSrgb([1, 0, 0])).toEqual([255, 255, 255])
})
