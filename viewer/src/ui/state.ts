/** What the page shows, as one value that fits into a link. */
import type { HeadId } from '../data/run'
import type { Pool } from '../data/weights'

export interface State {
  run: number
  head: HeadId | null
  /** What colours the heads: a column of the head table, a share, or `type`. */
  statistic: string
  headView: 'grid' | 'maps' | 'scatter' | 'table'
  /** How grid and maps are arranged: by layer and head, within each layer by the statistic, or all heads by it. */
  order: 'place' | 'layer' | 'largest' | 'smallest'
  /** The column that the table of heads is sorted by, and from which end. */
  sort: string
  down: 'no' | 'yes'
  x: string
  y: string
  centre: 'map' | 'profiles' | 'compare'
  /** Rows and keys in view as indices of the matrix; null: all of it. */
  view: View | null
  pool: Pool
  /** How weights are coloured; auto: linear for short texts, logarithmic for long ones. */
  colour: 'auto' | 'log' | 'linear'
  /** Pinned text positions. */
  query: number | null
  key: number | null
  textView: 'attends' | 'receives' | 'lines'
  /** Which page of a long text is open; null: the one with the pinned query. */
  page: number | null
  otherRun: number
  otherHead: HeadId | null
  theme: 'auto' | 'light' | 'dark'
}

export interface View {
  q0: number
  q1: number
  k0: number
  k1: number
}

/** Where the pointer or the keyboard cursor is: indices of the head's matrix. */
export interface Hover {
  query: number | null
  key: number | null
}

export const START: State = {
  run: 0,
  head: null,
  statistic: 'entropy',
  headView: 'grid',
  order: 'place',
  sort: 'head',
  down: 'no',
  x: 'entropy',
  y: 'max_weight',
  centre: 'map',
  view: null,
  pool: 'mean',
  colour: 'auto',
  query: null,
  key: null,
  textView: 'attends',
  page: null,
  otherRun: 0,
  otherHead: null,
  theme: 'auto',
}

const CHOICES = {
  headView: ['grid', 'maps', 'scatter', 'table'],
  order: ['place', 'layer', 'largest', 'smallest'],
  down: ['no', 'yes'],
  centre: ['map', 'profiles', 'compare'],
  pool: ['mean', 'max'],
  colour: ['auto', 'log', 'linear'],
  textView: ['attends', 'receives', 'lines'],
  theme: ['auto', 'light', 'dark'],
} as const

const head = (id: HeadId | null) => (id ? `${id.part}.${id.layer}.${id.head}` : '')

function parseHead(text: string | null): HeadId | null {
  const match = /^(.+)\.(\d{1,6})\.(\d{1,6})$/.exec(text ?? '')
  return match ? { part: match[1], layer: Number(match[2]), head: Number(match[3]) } : null
}

function parseInteger(text: string | null): number | null {
  return text !== null && /^-?\d{1,9}$/.test(text) ? Number(text) : null
}

/** Only what differs from the start, so that links stay short. */
export function toLink(state: State): string {
  const link = new URLSearchParams()
  for (const name of [
    'statistic',
    'x',
    'y',
    'sort',
    'down',
    'run',
    'otherRun',
    'headView',
    'order',
    'centre',
    'pool',
    'colour',
    'textView',
    'theme',
  ] as const) {
    if (state[name] !== START[name]) link.set(name, String(state[name]))
  }
  if (state.head) link.set('head', head(state.head))
  if (state.otherHead) link.set('otherHead', head(state.otherHead))
  if (state.query !== null) link.set('query', String(state.query))
  if (state.key !== null) link.set('key', String(state.key))
  if (state.page !== null) link.set('page', String(state.page))
  if (state.view) {
    const { q0, q1, k0, k1 } = state.view
    link.set('view', [q0, q1, k0, k1].map((v) => String(Math.round(v * 10) / 10)).join('_'))
  }
  return link.toString()
}

/** A state from a link; whatever makes no sense in it is left at its start. */
export function fromLink(text: string): State {
  const link = new URLSearchParams(text.replace(/^#/, ''))
  const state: State = { ...START }
  for (const [name, choices] of Object.entries(CHOICES)) {
    const value = link.get(name)
    if (value && (choices as readonly string[]).includes(value)) Object.assign(state, { [name]: value })
  }
  for (const name of ['statistic', 'x', 'y', 'sort'] as const) {
    const value = link.get(name)
    if (value && /^[a-z_]{1,60}$/.test(value)) state[name] = value
  }
  state.run = parseInteger(link.get('run')) ?? 0
  state.otherRun = parseInteger(link.get('otherRun')) ?? 0
  state.head = parseHead(link.get('head'))
  state.otherHead = parseHead(link.get('otherHead'))
  state.query = parseInteger(link.get('query'))
  state.key = parseInteger(link.get('key'))
  state.page = parseInteger(link.get('page'))
  const view = (link.get('view') ?? '').split('_').map(Number)
  if (view.length === 4 && view.every(Number.isFinite) && view[0] < view[1] && view[2] < view[3]) {
    state.view = { q0: view[0], q1: view[1], k0: view[2], k1: view[3] }
  }
  return state
}

/** Long texts spread their weights over decades. */
export const isLog = (colour: State['colour'], keys: number): boolean =>
  colour === 'auto' ? keys > 96 : colour === 'log'

/** A view of at least a few cells that lies within the matrix; null where it is the whole matrix. */
export function fitView(view: View, rows: number, keys: number): View | null {
  const fit = (from: number, to: number, length: number) => {
    if (from >= 0 && to <= length && to - from >= Math.min(4, length)) return [from, to]
    const size = Math.min(length, Math.max(Math.min(4, length), to - from))
    const middle = (from + to) / 2
    const start = Math.min(length - size, Math.max(0, middle - size / 2))
    return [start, start + size]
  }
  const [q0, q1] = fit(view.q0, view.q1, rows)
  const [k0, k1] = fit(view.k0, view.k1, keys)
  return q1 - q0 >= rows && k1 - k0 >= keys ? null : { q0, q1, k0, k1 }
}
