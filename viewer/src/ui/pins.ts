import type { Layer } from '../data/run'
import { useCurrent, useShared, useState_ } from './model'
import { fitView, type View } from './state'

const inside = (index: number, length: number) => (index >= 0 && index < length ? index : null)

export interface Pins {
  /** Indices of the matrix. */
  pinned: { query: number | null; key: number | null }
  /** Pins a row, a column or both; pinning what is pinned already lets it go. */
  pin: (query: number | null, key: number | null) => void
}

export function pinsIn(layer: Layer, query: number | null, key: number | null): Pins['pinned'] {
  return {
    query: query === null ? null : inside(query - layer.query_offset, layer.query_len),
    key: key === null ? null : inside(key - layer.key_offset, layer.key_len),
  }
}

/** The view that the link or the last head left, within this layer's matrix. */
export function viewIn(layer: Layer, view: View | null): View | null {
  return view && fitView(view, layer.query_len, layer.key_len)
}

export function usePins(): Pins {
  const { state } = useShared()
  const { layer } = useCurrent()!
  const query = useState_((s) => s.query)
  const key = useState_((s) => s.key)
  const pinned = pinsIn(layer, query, key)
  return {
    pinned,
    pin(nextQuery, nextKey) {
      if (nextQuery !== null && nextKey !== null && nextQuery === pinned.query && nextKey === pinned.key) {
        state.set({ query: null, key: null })
        return
      }
      if (nextKey === null && nextQuery === pinned.query) nextQuery = -1
      if (nextQuery === null && nextKey === pinned.key) nextKey = -1
      state.set({
        ...(nextQuery === null ? {} : { query: nextQuery < 0 ? null : nextQuery + layer.query_offset, page: null }),
        ...(nextKey === null ? {} : { key: nextKey < 0 ? null : nextKey + layer.key_offset }),
      })
    },
  }
}
