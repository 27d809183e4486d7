/** What the components share: the runs, the state, what the pointer is on. */
import { createContext } from 'preact'
import { useContext, useEffect, useState } from 'preact/hooks'
import type { Telling, Types } from '../data/engine'
import type { Remote } from '../data/remote'
import { axisTokens, type HeadId, type Layer, type Opened } from '../data/run'
import type { Theme } from './colour'
import { oneLine } from './format'
import type { Hover, State } from './state'
import { useStore, type Store } from './store'

/** One open run. */
export interface RunView {
  name: string
  /** Its place among the runs of the page. */
  order: number
  remote: Remote
  opened: Opened
  /** The head to open where none is asked for. */
  first: HeadId | null
  /** These arrive later, and move nothing. */
  telling: Telling | null
  types: Types | null
  parts: string[]
  /** What an exported file left out, in words. */
  note: string | null
  /** Heads that an exported file holds exact, as `part layer head`; null: all of them. */
  exact: Set<string> | null
}

export interface Shared {
  runs: Store<{ list: RunView[]; failures: string[] }>
  state: Store<State>
  hover: Store<Hover>
  theme: Store<{ theme: Theme }>
  /** Whether the wheel may zoom at once, or only with Ctrl (inside a notebook that scrolls). */
  wheel: 'always' | 'focused'
  /** The address of this view, null where there is none to share. */
  link: (() => string) | null
}

export const Context = createContext<Shared>(null as never)

export const useShared = (): Shared => useContext(Context)

export function useState_<U>(select: (state: State) => U): U {
  return useStore(useShared().state, select)
}

export function useTheme(): Theme {
  return useStore(useShared().theme, (value) => value.theme)
}

export function layerOf(run: RunView, id: HeadId): Layer | undefined {
  return run.opened.meta.layers.find((layer) => layer.part === id.part && layer.layer === id.layer)
}

export const sameHead = (a: HeadId | null, b: HeadId | null): boolean =>
  a === b || (!!a && !!b && a.part === b.part && a.layer === b.layer && a.head === b.head)

/** The head in view and its layer. */
export interface Current {
  run: RunView
  index: number
  id: HeadId
  layer: Layer
}

export function useCurrent(): Current | null {
  const { runs } = useShared()
  const list = useStore(runs, (value) => value.list)
  const index = useState_((state) => state.run)
  const head = useState_((state) => state.head)
  const run = list.find((one) => one.order === index) ?? list[0]
  if (!run) return null
  const id = head && layerOf(run, head)?.heads.includes(head.head) ? head : (run.first ?? run.opened.heads[0])
  return { run, index: run.order, id, layer: layerOf(run, id)! }
}

/** Labels of both axes of a layer: position and text of index i. */
export interface AxisLabels {
  query: string[]
  key: string[]
  queryToken: Int32Array
  keyToken: Int32Array
}

const labelled = new WeakMap<Opened, Map<string, AxisLabels>>()
const lines = new WeakMap<Opened, string[]>()

/** Layers over the same positions share their labels, which long texts have many of. */
export function labelsOf(run: RunView, layer: Layer): AxisLabels {
  const { opened } = run
  if (!labelled.has(opened)) labelled.set(opened, new Map())
  const { query_sequence = 'text', key_sequence = 'text', query_offset, query_len, key_offset, key_len } = layer
  const name = JSON.stringify([query_sequence, query_offset, query_len, key_sequence, key_offset, key_len])
  let labels = labelled.get(opened)!.get(name)
  if (!labels) {
    const query = axis(opened, query_sequence, query_offset, query_len)
    const same = query_sequence === key_sequence && query_offset === key_offset && query_len === key_len
    const key = same ? query : axis(opened, key_sequence, key_offset, key_len)
    labels = { query: query.labels, key: key.labels, queryToken: query.tokens, keyToken: key.tokens }
    labelled.get(opened)!.set(name, labels)
  }
  return labels
}

function axis(opened: Opened, sequence: string, offset: number, length: number) {
  if (!lines.has(opened))
    lines.set(
      opened,
      opened.tokens.label.map((label) => oneLine(label)),
    )
  const line = lines.get(opened)!
  const tokens = axisTokens(opened.tokens, sequence, offset, length)
  return { tokens, labels: Array.from(tokens, (token, i) => (token < 0 ? `[${i + offset}]` : line[token])) }
}

export type Loaded<T> = { value: T | null; error: string | null; loading: boolean }

/** The result of an asynchronous question, asked again when what it depends on changes; keeps the last one meanwhile. */
export function useAsync<T>(ask: () => Promise<T> | null, depends: unknown[]): Loaded<T> {
  const [state, setState] = useState<Loaded<T>>({ value: null, error: null, loading: true })
  useEffect(() => {
    let alive = true
    const promise = ask()
    if (!promise) {
      setState({ value: null, error: null, loading: false })
      return
    }
    promise.then(
      (value) => alive && setState({ value, error: null, loading: false }),
      (error: Error) =>
        alive && error.name !== 'CancelledError' && setState({ value: null, error: error.message, loading: false }),
    )
    return () => {
      alive = false
    }
  }, depends)
  return state
}
