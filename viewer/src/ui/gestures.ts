/** Wheel, drag, pinch, click and keys on a matrix. */
import type { RefObject } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { useShared } from './model'
import type { Hover, View } from './state'
import type { Store } from './store'

interface Options {
  view: View
  plot: { left: number; top: number; width: number; height: number }
  rows: number
  keys: number
  hover: Store<Hover>
  onView: (view: View) => void
  onWhole: () => void
  onHover: (query: number | null, key: number | null) => void
  onPin: (query: number | null, key: number | null) => void
}

/** Zooms by a factor about a point given as shares of the view. */
export function zoomed(view: View, factor: number, x: number, y: number): View {
  const q = view.q0 + y * (view.q1 - view.q0)
  const k = view.k0 + x * (view.k1 - view.k0)
  return {
    q0: q - (q - view.q0) * factor,
    q1: q + (view.q1 - q) * factor,
    k0: k - (k - view.k0) * factor,
    k1: k + (view.k1 - k) * factor,
  }
}

export function moved(view: View, queries: number, keys: number, rows: number, columns: number): View {
  const dq = Math.min(rows - view.q1, Math.max(-view.q0, queries))
  const dk = Math.min(columns - view.k1, Math.max(-view.k0, keys))
  return { q0: view.q0 + dq, q1: view.q1 + dq, k0: view.k0 + dk, k1: view.k1 + dk }
}

export function useGestures(frame: RefObject<HTMLElement | null>, options: Options): void {
  const { wheel } = useShared()
  const latest = useRef(options)
  latest.current = options

  useEffect(() => {
    const element = frame.current!
    const pointers = new Map<number, { x: number; y: number }>()
    let travelled = 0
    let spread = 0

    const place = (event: { clientX: number; clientY: number }) => {
      const box = element.getBoundingClientRect()
      const { plot } = latest.current
      return {
        x: (event.clientX - box.left - plot.left) / plot.width,
        y: (event.clientY - box.top - plot.top) / plot.height,
      }
    }
    const cell = ({ x, y }: { x: number; y: number }) => {
      const { view, rows, keys } = latest.current
      const query = Math.floor(view.q0 + y * (view.q1 - view.q0))
      const key = Math.floor(view.k0 + x * (view.k1 - view.k0))
      return {
        query: y >= 0 && y < 1 && query >= 0 && query < rows ? query : null,
        key: x >= 0 && x < 1 && key >= 0 && key < keys ? key : null,
      }
    }
    const onWheel = (event: WheelEvent) => {
      if (wheel === 'focused' && !event.ctrlKey && !event.metaKey) {
        const root = element.getRootNode() as Document | ShadowRoot
        if (root.activeElement !== element) return
      }
      event.preventDefault()
      const at = place(event)
      const delta = event.deltaY * (event.deltaMode === 1 ? 16 : 1) * (event.ctrlKey ? 3 : 1)
      const inside = (v: number) => Math.min(1, Math.max(0, v))
      latest.current.onView(
        zoomed(latest.current.view, Math.exp(Math.max(-300, Math.min(300, delta)) * 0.002), inside(at.x), inside(at.y)),
      )
    }
    const onDown = (event: PointerEvent) => {
      if (event.button !== 0) return
      element.setPointerCapture(event.pointerId)
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY })
      travelled = 0
      spread = 0
    }
    const onMove = (event: PointerEvent) => {
      const { view, plot, rows, keys } = latest.current
      const before = pointers.get(event.pointerId)
      if (!before) {
        const { query, key } = cell(place(event))
        latest.current.onHover(query, key)
        return
      }
      const dx = event.clientX - before.x
      const dy = event.clientY - before.y
      travelled += Math.abs(dx) + Math.abs(dy)
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY })
      let next = view
      const share = pointers.size
      next = moved(
        next,
        (-dy / share / plot.height) * (view.q1 - view.q0),
        (-dx / share / plot.width) * (view.k1 - view.k0),
        rows,
        keys,
      )
      if (pointers.size === 2) {
        const [a, b] = [...pointers.values()]
        const now = Math.hypot(a.x - b.x, a.y - b.y)
        const middle = place({ clientX: (a.x + b.x) / 2, clientY: (a.y + b.y) / 2 })
        if (spread > 0 && now > 0) next = zoomed(next, spread / now, middle.x, middle.y)
        spread = now
      }
      if (travelled > 3) latest.current.onView(next)
    }
    const onUp = (event: PointerEvent) => {
      if (!pointers.delete(event.pointerId) || travelled > 3 || event.type === 'pointercancel') return
      const at = place(event)
      const { query, key } = cell(at)
      if (at.x < 0 && query !== null) latest.current.onPin(query, null)
      else if (at.y < 0 && key !== null) latest.current.onPin(null, key)
      else if (query !== null && key !== null) latest.current.onPin(query, key)
    }
    const onLeave = () => latest.current.onHover(null, null)
    const onDouble = (event: MouseEvent) => {
      const at = place(event)
      if (at.x < 0 || at.y < 0) return
      latest.current.onView(zoomed(latest.current.view, event.shiftKey ? 2 : 0.5, at.x, at.y))
    }
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return
      const { view, rows, keys, hover, onView, onWhole, onHover, onPin } = latest.current
      const { query, key } = hover.get()
      const cursor = {
        query: query ?? Math.floor((view.q0 + view.q1) / 2),
        key: key ?? Math.floor((view.k0 + view.k1) / 2),
      }
      const x = (cursor.key + 0.5 - view.k0) / (view.k1 - view.k0)
      const y = (cursor.query + 0.5 - view.q0) / (view.q1 - view.q0)
      const step: Record<string, [number, number]> = {
        ArrowUp: [-1, 0],
        ArrowDown: [1, 0],
        ArrowLeft: [0, -1],
        ArrowRight: [0, 1],
      }
      if (step[event.key]) {
        const [dq, dk] = step[event.key]
        if (event.shiftKey) {
          onView(moved(view, (dq * (view.q1 - view.q0)) / 4, (dk * (view.k1 - view.k0)) / 4, rows, keys))
        } else {
          const next = {
            query: Math.min(rows - 1, Math.max(0, cursor.query + dq)),
            key: Math.min(keys - 1, Math.max(0, cursor.key + dk)),
          }
          onHover(next.query, next.key)
          const over = (at: number, from: number, to: number) => (at < from ? at - from : at + 1 > to ? at + 1 - to : 0)
          const [out, aside] = [over(next.query, view.q0, view.q1), over(next.key, view.k0, view.k1)]
          if (out || aside) onView(moved(view, out, aside, rows, keys))
        }
      } else if (event.key === '+' || event.key === '=') onView(zoomed(view, 0.7, x, y))
      else if (event.key === '-') onView(zoomed(view, 1 / 0.7, x, y))
      else if (event.key === '0') onWhole()
      else if (event.key === 'Enter') onPin(cursor.query, null)
      else if (event.key === ' ') onPin(null, cursor.key)
      else return
      event.preventDefault()
    }
    element.addEventListener('wheel', onWheel, { passive: false })
    element.addEventListener('pointerdown', onDown)
    element.addEventListener('pointermove', onMove)
    element.addEventListener('pointerup', onUp)
    element.addEventListener('pointercancel', onUp)
    element.addEventListener('pointerleave', onLeave)
    element.addEventListener('dblclick', onDouble)
    element.addEventListener('keydown', onKey)
    return () => {
      element.removeEventListener('wheel', onWheel)
      element.removeEventListener('pointerdown', onDown)
      element.removeEventListener('pointermove', onMove)
      element.removeEventListener('pointerup', onUp)
      element.removeEventListener('pointercancel', onUp)
      element.removeEventListener('pointerleave', onLeave)
      element.removeEventListener('dblclick', onDouble)
      element.removeEventListener('keydown', onKey)
    }
  }, [])
}
