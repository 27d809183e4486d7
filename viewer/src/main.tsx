/** The viewer's doors: the page of the local server, the exported file, and the notebook widget. */
import { render } from 'preact'
import code from '../build/worker.js?raw'
import type { Telling, Types } from './data/engine'
import { inside, type InsideFile } from './data/inside'
import { start } from './data/remote'
import type { Opened } from './data/run'
import { served } from './data/served'
import type { Source } from './data/source'
import { widgetSource, type AnyModel } from './data/widget'
import { App } from './ui/app'
import { sharpest } from './ui/first'
import { Context, layerOf, type Runs, type RunView, type Shared } from './ui/model'
import { fromLink, toLink, type State } from './ui/state'
import { Store } from './ui/store'
import style from './ui/style.css?inline'

interface RunEntry {
  name: string
  source: Source
  note: string | null
  exact: [string, number, number][] | null
}

interface Place {
  root: HTMLElement
  runs: RunEntry[]
  link: string
  onLink(link: string): void
  address: (() => string) | null
  wheel: Shared['wheel']
}

/** Shows runs in an element; the result takes everything down again. */
function show(place: Place): { close(): void; state: Store<State> } {
  const shared: Shared = {
    runs: new Store<Runs>({ list: [], failures: [], asked: place.runs.length }),
    state: new Store<State>(fromLink(place.link)),
    hover: new Store({ query: null, key: null } as { query: number | null; key: number | null }),
    theme: new Store({ theme: 'light' } as { theme: 'light' | 'dark' }),
    wheel: place.wheel,
    link: place.address,
  }
  const { root } = place
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(style)
  const home = root.getRootNode() as Document | ShadowRoot
  home.adoptedStyleSheets = [...home.adoptedStyleSheets, sheet]
  root.classList.add('heedmap')

  const darkPage = matchMedia('(prefers-color-scheme: dark)')
  const dress = () => {
    const { theme } = shared.state.get()
    const dark =
      theme === 'dark' ||
      (theme === 'auto' && (notebookTheme(root) ?? (darkPage.matches ? 'dark' : 'light')) === 'dark')
    shared.theme.set({ theme: dark ? 'dark' : 'light' })
    root.dataset.theme = dark ? 'dark' : 'light'
  }
  dress()
  darkPage.addEventListener('change', dress)
  let told = place.link
  const unwatch = shared.state.watch(() => {
    dress()
    const link = toLink(shared.state.get())
    if (link !== told) {
      told = link
      place.onLink(link)
    }
  })

  const closing: (() => void)[] = []
  for (const entry of place.runs) void open(entry, place.runs, root, shared, closing)
  render(
    <Context.Provider value={shared}>
      <App />
    </Context.Provider>,
    root,
  )
  return {
    state: shared.state,
    close() {
      unwatch()
      darkPage.removeEventListener('change', dress)
      render(null, root)
      for (const close of closing) close()
    },
  }
}

const idOf = (key: [string, number, number] | null) => key && { part: key[0], layer: key[1], head: key[2] }

/** How long the first picture waits to learn which head is the most telling; later news move nothing. */
const PATIENCE_MS = 300

async function open(
  entry: RunEntry,
  order: RunEntry[],
  root: HTMLElement,
  shared: Shared,
  closing: (() => void)[],
): Promise<void> {
  try {
    const remote = await start(entry.source, code)
    closing.push(remote.close)
    root.dataset.engine = remote.place
    const asked = remote.call<Telling>('telling').catch(() => null)
    const patience = new Promise<null>((resolve) => setTimeout(resolve, PATIENCE_MS, null))
    const opened = await remote.call<Opened>('open')
    const parts = [...new Set(opened.heads.map((head) => head.part))]
    const view: RunView = {
      name: entry.name,
      order: order.indexOf(entry),
      remote,
      opened,
      first: null,
      telling: null,
      types: null,
      whole: false,
      parts,
      note: entry.note,
      exact: entry.exact && new Set(entry.exact.map((head) => head.join(' '))),
    }
    const put = (run: RunView) => {
      const list = [...shared.runs.get().list.filter((other) => other.remote !== remote), run]
      shared.runs.set({ list: list.sort((a, b) => a.order - b.order) })
    }
    const early = await Promise.race([asked, patience])
    const first = idOf(entry.exact?.[0] ?? early?.show ?? null) ?? sharpest(opened)
    if (first && layerOf(view, first)?.heads.includes(first.head)) {
      view.first = first
      if (view.order === shared.state.get().run && !shared.state.get().head) shared.state.set({ head: first })
    }
    put({ ...view, telling: early })
    const telling = early ?? (await asked)
    if (!early && telling) put({ ...view, telling })
    const types = await remote.call<Types>('types').catch(() => null)
    put({ ...view, telling, types, whole: true })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    shared.runs.set({ failures: [...shared.runs.get().failures, `${entry.name}: ${message}`] })
  }
}

/** What a notebook says of its own theme: JupyterLab on its body, VS Code by a class. */
function notebookTheme(root: HTMLElement): 'light' | 'dark' | null {
  if (!(root.getRootNode() instanceof ShadowRoot)) return null
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset
  if (jpThemeLight) return jpThemeLight === 'false' ? 'dark' : 'light'
  if (vscodeThemeKind) return vscodeThemeKind.includes('dark') ? 'dark' : 'light'
  return null
}

interface Index {
  seam: 'served' | 'inside'
  runs: { name: string; note?: string; exact?: [string, number, number][]; files?: Record<string, InsideFile> }[]
}

function page(index: Index): void {
  const textOf = (id: string) => document.getElementById(id)?.textContent ?? null
  const entry = ({ name, note, exact, files }: Index['runs'][number], i: number): RunEntry => ({
    name,
    note: note ?? null,
    exact: exact ?? null,
    source: index.seam === 'inside' ? inside(files!, textOf) : served(new URL(`runs/${i}/`, document.baseURI).href),
  })
  let wait: ReturnType<typeof setTimeout> | undefined
  const shown = show({
    root: document.getElementById('heedmap')!,
    runs: index.runs.map(entry),
    link: location.hash.slice(1),
    onLink(link) {
      clearTimeout(wait)
      wait = setTimeout(() => history.replaceState(null, '', `#${link}`), 120)
    },
    address: () => `${location.href.split('#')[0]}#${toLink(shown.state.get())}`,
    wheel: 'always',
  })
  addEventListener('hashchange', () => shown.state.set(fromLink(location.hash)))
}

const index = document.getElementById('heedmap-index')
if (index && document.getElementById('heedmap')) page(JSON.parse(index.textContent!))

export default {
  /** The anywidget contract. */
  render({ model, el }: { model: AnyModel; el: HTMLElement }): () => void {
    const host = document.createElement('div')
    host.dataset.lmSuppressShortcuts = 'true' // else JupyterLab takes keys such as 0 0 for its own commands
    el.append(host)
    const root = document.createElement('div')
    host.attachShadow({ mode: 'open' }).append(root)
    root.style.height = `${model.get('height')}px`
    root.style.setProperty('--view-height', `${model.get('height')}px`)
    root.classList.add('widget')
    const { source, close } = widgetSource(model)
    const names = model.get('runs') as string[]
    const shown = show({
      root,
      runs: names.map((name, i) => ({ name, note: null, exact: null, source: source(i) })),
      link: String(model.get('state') ?? ''),
      onLink(link) {
        model.set('state', link)
        model.save_changes()
      },
      address: null,
      wheel: 'focused',
    })
    return () => {
      shown.close()
      close()
      host.remove()
    }
  },
}
