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
  /** Whether telling and types have come, or never will. */
  whole: boolean
  parts: string[]
  /** What an exported file left out, in words. */
  note: string | null
  /** Heads that an exported file holds exact, as `part layer head`; null: all of them. */
  exact: Set<string> | null
}

export interface Runs {
  list: RunView[]
  failures: string[]
  /** How many were asked for; those in neither list are still being opened. */
  asked: number
}

export const opening = ({ list, failures, asked }: Runs): boolean => list.length + failures.length < asked

export interface Shared {
  runs: Store<Runs>
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

/** The run of a number; the first where there is none of that number; nothing while it may still come. */
export function runOf(known: Runs, order: number): RunView | undefined {
  const { list, asked } = known
  return list.find((one) => one.order === order) ?? (opening(known) && order < asked ? undefined : list[0])
}

export function useCurrent(): Current | null {
  const { runs } = useShared()
  const known = useStore(runs, (value) => value)
  const index = useState_((state) => state.run)
  const head = useState_((state) => state.head)
  const run = runOf(known, index)
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

/** `loading`: the value is not, or not yet, the answer to the present question. */
export type Loaded<T> = { value: T | null; error: string | null; loading: boolean }

/** The result of an asynchronous question, asked again when what it depends on changes; keeps the last one meanwhile. */
export function useAsync<T>(ask: () => Promise<T> | null, depends: unknown[]): Loaded<T> {
  const [state, setState] = useState<{ of: unknown[] | null; value: T | null; error: string | null }>({
    of: null,
    value: null,
    error: null,
  })
  useEffect(() => {
    let alive = true
    const promise = ask()
    if (!promise) {
      setState({ of: depends, value: null, error: null })
      return
    }
    promise.then(
      (value) => alive && setState({ of: depends, value, error: null }),
      (error: Error) =>
        alive && error.name !== 'CancelledError' && setState({ of: depends, value: null, error: error.message }),
    )
    return () => {
      alive = false
    }
  }, depends)
  const loading = state.of === null || state.of.some((part, i) => !Object.is(part, depends[i]))
  return { value: state.value, error: loading ? null : state.error, loading }
}
