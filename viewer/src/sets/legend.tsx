import { css, palette, type Theme } from '../ui/colour'

const STOPS = 8

/** Which colours stand for which numbers: the scale itself between its ends. */
export function Legend({ low, high, theme }: { low: string; high: string; theme: Theme }) {
  const table = palette('sequential', theme)
  const stops = Array.from({ length: STOPS + 1 }, (_, at) => css(table, at / STOPS))
  return (
    <p class="set-legend soft">
      {low} <span style={{ background: `linear-gradient(to right, ${stops.join(', ')})` }} aria-hidden="true" /> {high}
    </p>
  )
}
