import { useEffect, useMemo, useRef } from 'preact/hooks'
import { headName } from '../data/run'
import { css, inkOn, KIND_COLOURS, palette } from './colour'
import { number } from './format'
import { sameHead, useAsync, useCurrent, useTheme } from './model'

interface Thumbnail {
  id: { part: string; layer: number; head: number }
  rows: number
  keys: number
  values: Uint8Array
}

interface Props {
  maps: boolean
  kinds: string[] | null
  values: ArrayLike<number>
  range: [number, number]
  onTell: (index: number | null) => void
  onOpen: (index: number) => void
}

/** Layers down, heads across; layers without attention leave their gap. */
export function HeadGrid({ maps, kinds, values, range, onTell, onOpen }: Props) {
  const theme = useTheme()
  const { run, id } = useCurrent()!
  const { heads } = run.opened
  const table = palette('sequential', theme)
  const body = useRef<HTMLDivElement>(null)
  const rows = useMemo(() => {
    const found = new Map<string, { part: string; layer: number; cells: Map<number, number> }>()
    heads.forEach(({ part, layer, head }, index) => {
      const key = `${part} ${layer}`
      if (!found.has(key)) found.set(key, { part, layer, cells: new Map() })
      found.get(key)!.cells.set(head, index)
    })
    return [...found.values()]
  }, [heads])
  const width = 1 + Math.max(...heads.map((h) => h.head))
  const thumbnails = useAsync<Thumbnail[]>(() => (maps ? run.remote.call('thumbnails') : null), [maps, run])
  const small = useMemo(() => {
    const by = new Map<string, Thumbnail>()
    for (const one of thumbnails.value ?? []) by.set(`${one.id.part} ${one.id.layer} ${one.id.head}`, one)
    return by
  }, [thumbnails.value])
  const share = (index: number) => (values[index] - range[0]) / (range[1] - range[0] || 1)

  const onKeyDown = (event: KeyboardEvent) => {
    const step: Record<string, [number, number]> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
    }
    const target = (event.target as HTMLElement).closest<HTMLElement>('[data-index]')
    if (!step[event.key] || !target) return
    event.preventDefault()
    const at = heads[Number(target.dataset.index)]
    let row = rows.findIndex((r) => r.part === at.part && r.layer === at.layer)
    let head = at.head
    for (;;) {
      row += step[event.key][0]
      head += step[event.key][1]
      if (row < 0 || row >= rows.length || head < 0 || head >= width) return
      const next = rows[row].cells.get(head)
      if (next !== undefined) {
        body.current!.querySelector<HTMLElement>(`[data-index="${next}"]`)!.focus()
        return
      }
    }
  }
  const chosen = heads.findIndex((head) => sameHead(head, id))

  return (
    <div
      class={`head-grid${maps ? ' maps' : ''}`}
      style={{ '--rows': String(rows.length) }}
      onKeyDown={onKeyDown}
      onMouseLeave={() => onTell(null)}
    >
      <div class="head-row head-names" aria-hidden="true">
        <span />
        {Array.from({ length: width }, (_, head) => (
          <span key={head}>{width <= 16 || head % 4 === 0 ? head : ''}</span>
        ))}
      </div>
      <div class="head-body" ref={body} role="group" aria-label="Heads by layer, arrow keys move, Enter opens">
        {rows.map(({ part, layer, cells }) => (
          <div class="head-row" key={`${part} ${layer}`}>
            <span class="layer-name" aria-hidden="true">
              {run.parts.length > 1 ? `${part} ${layer}` : layer}
            </span>
            {Array.from({ length: width }, (_, head) => {
              const index = cells.get(head)
              if (index === undefined) return <span key={head} class="no-head" />
              const thumbnail = maps ? small.get(`${part} ${layer} ${head}`) : undefined
              const value = share(index)
              const background = maps
                ? undefined
                : kinds
                  ? KIND_COLOURS[kinds[index]]
                  : Number.isFinite(value)
                    ? css(table, value)
                    : undefined
              return (
                <button
                  key={head}
                  type="button"
                  class={run.exact?.has(`${part} ${layer} ${head}`) ? 'head held' : 'head'}
                  data-index={index}
                  tabIndex={index === Math.max(0, chosen) ? 0 : -1}
                  aria-current={index === chosen}
                  aria-label={`Head ${headName(heads[index], run.parts.length)}, ${kinds ? kinds[index] : number(values[index])}`}
                  style={{ background, color: maps ? undefined : inkOn(table, value) }}
                  onMouseEnter={() => onTell(index)}
                  onFocus={() => onTell(index)}
                  onBlur={() => onTell(null)}
                  onClick={() => onOpen(index)}
                >
                  {thumbnail && <Small one={thumbnail} table={table} />}
                </button>
              )
            })}
          </div>
        ))}
      </div>
      {maps && thumbnails.error && <p class="note">{thumbnails.error}</p>}
    </div>
  )
}

function Small({ one, table }: { one: Thumbnail; table: Uint8Array }) {
  const canvas = useRef<HTMLCanvasElement>(null)
  useEffect(() => {
    const pixels = new ImageData(one.keys, one.rows)
    for (let i = 0; i < one.values.length; i++)
      pixels.data.set(table.subarray(4 * one.values[i], 4 * one.values[i] + 4), 4 * i)
    canvas.current!.getContext('2d')!.putImageData(pixels, 0, 0)
  }, [one, table])
  return <canvas ref={canvas} width={one.keys} height={one.rows} aria-hidden="true" />
}
