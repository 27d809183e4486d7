/** One matrix of queries × keys: drawn, labelled, moved by pointer and keyboard. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Axes, GUTTER, readable } from './axes'
import { palette, VEILS, type Domain } from './colour'
import { useShared, useTheme } from './model'
import { plain } from './plain'
import { redraws, webgl, type Layered, type Renderer } from './renderer'
import { fitView, type View } from './state'
import { useGestures } from './gestures'

export interface MatrixProps {
  name: string
  rows: number
  keys: number
  view: View | null
  grids: Layered[]
  domain: Domain
  kind?: 'sequential' | 'diverging'
  labels: { query: string[]; key: string[] }
  offsets: { query: number; key: number }
  pinned: { query: number | null; key: number | null }
  onView: (view: View | null) => void
  onPin: (query: number | null, key: number | null) => void
  /** Told when the drawing area changes, in device pixels. */
  onSize?: (pixels: { width: number; height: number }) => void
  compact?: boolean
}

/** Slightly more cells than pixels are all drawn, and the browser shrinks the picture; none falls between two pixels. */
export const MOST_CELLS_PER_PIXEL = 1.5

/** When the first picture stood, for whoever measures: see benchmarks/viewer.py. */
const FIRST = 'heedmap first picture'

const backing = (pixels: number, cells: number) =>
  Math.round(cells > pixels && cells <= pixels * MOST_CELLS_PER_PIXEL ? cells : pixels)

export function Matrix(props: MatrixProps) {
  const { rows, keys, grids, domain, kind = 'sequential', onSize } = props
  const theme = useTheme()
  const { hover } = useShared()
  const frame = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const renderer = useRef<Renderer | null>(null)
  const [mode, setMode] = useState<'webgl2' | 'canvas'>('webgl2')
  const [ready, setReady] = useState(false)
  const [size, setSize] = useState({ width: 0, height: 0 })
  const view = props.view ?? { q0: 0, q1: rows, k0: 0, k1: keys }
  const room = props.compact ? GUTTER.compact : GUTTER.full
  const words = {
    query: readable('query', view.q1 - view.q0, size.height - room.words.top),
    key: readable('key', view.k1 - view.k0, size.width - room.words.left - room.words.right),
  }
  const gutter = {
    left: (words.query ? room.words : room.numbers).left,
    top: (words.key ? room.words : room.numbers).top,
    right: (words.key ? room.words : room.numbers).right,
  }
  const plot = {
    width: Math.max(0, size.width - gutter.left - gutter.right),
    height: Math.max(0, size.height - gutter.top - 1),
  }

  useLayoutEffect(() => {
    const element = frame.current!
    // tells the first size too, before the first picture and without a layout of its own
    const observer = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }))
    observer.observe(element)
    return () => observer.disconnect()
  }, [])

  useEffect(() => {
    const element = canvas.current!
    const lost = (event: Event) => {
      event.preventDefault()
      setMode('canvas')
    }
    const make = () => {
      renderer.current = mode === 'webgl2' ? webgl(element) : plain(element)
      if (renderer.current) setReady(true)
      else setMode('canvas')
    }
    // a turn of its own: the browser's graphics may take long to start, and the numbers were asked for before
    const timer = setTimeout(make, 0)
    element.addEventListener('webglcontextlost', lost)
    return () => {
      clearTimeout(timer)
      element.removeEventListener('webglcontextlost', lost)
      renderer.current?.dispose()
      renderer.current = null
      setReady(false)
    }
  }, [mode])

  useEffect(() => {
    const ratio = window.devicePixelRatio || 1
    if (plot.width && plot.height)
      onSize?.({ width: Math.round(plot.width * ratio), height: Math.round(plot.height * ratio) })
  }, [plot.width, plot.height])

  useLayoutEffect(() => {
    const element = canvas.current
    if (!element || !renderer.current || !plot.width || !plot.height) return
    const ratio = window.devicePixelRatio || 1
    const draw = () => {
      const width = backing(plot.width * ratio, view.k1 - view.k0)
      const height = backing(plot.height * ratio, view.q1 - view.q0)
      if (element.width !== width) element.width = width
      if (element.height !== height) element.height = height
      renderer.current?.draw({ grids, view, domain, table: palette(kind, theme), veils: VEILS[theme] })
    }
    draw()
    if (grids.length && !performance.getEntriesByName(FIRST).length) performance.mark(FIRST)
    redraws.set(element, draw)
  })

  useGestures(frame, {
    view,
    plot: { ...plot, left: gutter.left, top: gutter.top },
    onView: (next) => props.onView(fitView(next, rows, keys)),
    onWhole: () => props.onView(null),
    onHover: (query, key) => hover.set({ query, key }),
    onPin: props.onPin,
    hover,
    rows,
    keys,
  })

  return (
    <div
      class="matrix"
      ref={frame}
      tabIndex={0}
      role="application"
      aria-label={`${props.name}. Arrow keys move the cursor, plus and minus zoom, 0 shows the whole, Enter pins the query, Space the key.`}
      data-renderer={mode}
      aria-busy={!ready}
    >
      <canvas
        key={mode}
        ref={canvas}
        aria-hidden="true"
        style={{
          left: `${gutter.left}px`,
          top: `${gutter.top}px`,
          width: `${plot.width}px`,
          height: `${plot.height}px`,
        }}
      />
      <Axes {...props} view={view} plot={plot} gutter={gutter} size={size} words={words} />
    </div>
  )
}
