/** Small parts that every panel uses. */
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { csvOf, download, pngOf, svgOf, type Table } from './save'

export function Choice<T extends string>(props: {
  label: string
  value: T
  options: readonly (readonly [T, string])[]
  onChange: (value: T) => void
}) {
  return (
    <div class="choice" role="radiogroup" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button
          key={value}
          type="button"
          role="radio"
          aria-checked={value === props.value}
          tabIndex={value === props.value ? 0 : -1}
          onClick={() => props.onChange(value)}
          onKeyDown={(event) => {
            const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]
            if (!step) return
            event.preventDefault()
            const at = props.options.findIndex(([v]) => v === value)
            const next = (at + step + props.options.length) % props.options.length
            props.onChange(props.options[next][0])
            ;(event.currentTarget.parentElement!.children[next] as HTMLElement).focus()
          }}
        >
          {text}
        </button>
      ))}
    </div>
  )
}

export function Select(props: {
  label: string
  value: string
  options: readonly (readonly [string, string])[]
  onChange: (value: string) => void
}) {
  return (
    <label class="select">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}

/** A titled part of the page that can be saved as a picture, and as a table where it has one. */
export function Panel(props: {
  name: string
  title: ComponentChildren
  class?: string
  tools?: ComponentChildren
  table?: () => Promise<Table> | Table
  /** Whether something of it is still to come. */
  busy?: boolean
  /** Whether it still shows what was asked for before: then nothing of it is saved. */
  stale?: boolean
  children: ComponentChildren
}) {
  const section = useRef<HTMLElement>(null)
  return (
    <section
      ref={section}
      class={`panel ${props.class ?? ''}`}
      aria-label={props.name}
      data-panel={props.name.toLowerCase()}
      aria-busy={props.busy ?? false}
    >
      <header class="panel-head">
        <h2>{props.title}</h2>
        <div class="tools">{props.tools}</div>
        <SaveMenu name={props.name} element={() => section.current!} table={props.table} stale={props.stale ?? false} />
      </header>
      {props.children}
    </section>
  )
}

function SaveMenu(props: {
  name: string
  element: () => HTMLElement
  table?: () => Promise<Table> | Table
  stale: boolean
}) {
  const [open, setOpen] = useState(false)
  const [failed, setFailed] = useState<string | null>(null)
  const menu = useRef<HTMLDivElement>(null)
  const file = `heedmap-${props.name.toLowerCase().replace(/\s+/g, '-')}`
  useEffect(() => {
    if (!open) return
    menu.current!.querySelector('button')!.focus()
    const away = (event: Event) => {
      if (!event.composedPath().includes(menu.current!.parentElement!)) setOpen(false)
    }
    document.addEventListener('pointerdown', away)
    return () => document.removeEventListener('pointerdown', away)
  }, [open])
  const save = (what: () => Promise<[Blob, string]>) => async () => {
    setOpen(false)
    setFailed(null)
    if (props.stale) return setFailed('The numbers are still being read: try again in a moment.')
    try {
      const [blob, ending] = await what()
      download(blob, `${file}.${ending}`)
    } catch (error) {
      setFailed(error instanceof Error ? error.message : String(error))
    }
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Escape') {
      setOpen(false)
      menu.current?.parentElement?.querySelector('button')?.focus()
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (!step) return
    event.preventDefault()
    const items = [...menu.current!.querySelectorAll('button')]
    const at = items.indexOf((menu.current!.getRootNode() as Document).activeElement as HTMLButtonElement)
    items[(at + step + items.length) % items.length].focus()
  }
  return (
    <div class="menu">
      <button
        type="button"
        class="icon"
        aria-haspopup="menu"
        aria-expanded={open}
        aria-label={`Save ${props.name}`}
        title="Save"
        onClick={() => setOpen(!open)}
      >
        <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
          <path
            d="M8 2v8M4.5 7 8 10.5 11.5 7M2.5 13.5h11"
            fill="none"
            stroke="currentColor"
            stroke-width="1.4"
            stroke-linecap="round"
            stroke-linejoin="round"
          />
        </svg>
      </button>
      {open && (
        <div class="menu-items" role="menu" ref={menu} onKeyDown={onKey}>
          <button type="button" role="menuitem" onClick={save(async () => [svgOf(props.element()), 'svg'])}>
            Picture (SVG)
          </button>
          <button type="button" role="menuitem" onClick={save(async () => [await pngOf(props.element()), 'png'])}>
            Picture (PNG)
          </button>
          {props.table && (
            <button type="button" role="menuitem" onClick={save(async () => [csvOf(await props.table!()), 'csv'])}>
              Table (CSV)
            </button>
          )}
        </div>
      )}
      {failed && <span role="alert">{failed}</span>}
    </div>
  )
}

export function Legend(props: { table: Uint8Array; low: string; high: string; name?: string }) {
  const canvas = useRef<HTMLCanvasElement>(null)
  useEffect(() => {
    const context = canvas.current!.getContext('2d')!
    const pixels = new ImageData(256, 1)
    pixels.data.set(props.table)
    context.putImageData(pixels, 0, 0)
  }, [props.table])
  return (
    <div class="legend">
      <span>{props.low}</span>
      <canvas ref={canvas} width={256} height={1} aria-hidden="true" />
      <span>{props.high}</span>
      {props.name && <span class="legend-name">{props.name}</span>}
    </div>
  )
}

export function Note(props: { children: ComponentChildren; alert?: boolean }) {
  return (
    <p class="note" role={props.alert ? 'alert' : undefined}>
      {props.children}
    </p>
  )
}
