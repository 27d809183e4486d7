import { useEffect, useMemo, useRef } from 'preact/hooks'
import { headName } from '../data/run'
import { css, inkOn, inkOnHex, KIND_COLOURS, palette } from './colour'
import { number } from './format'
import { soon } from './growing'
import { arrange } from './headorder'
import { sameHead, useAsync, useCurrent, useTheme } from './model'
import type { State } from './state'

interface Thumbnail {
  id: { part: string; layer: number; head: number }
  rows: number
  keys: number
  values: Uint8Array
}

interface Props {
  maps: boolean
  order: State['order']
  /** What the heads are ordered by. */
  keys: ArrayLike<number>
  kinds: string[] | null
  values: ArrayLike<number>
  range: [number, number]
  onTell: (index: number | null) => void
  onOpen: (index: number) => void
}

const GROUPS: Record<State['order'], string> = {
  place: 'Heads by layer',
  layer: 'Heads of each layer in order',
  largest: 'Heads, the largest first',
  smallest: 'Heads, the smallest first',
}

/** Layers down, heads across, where layers without attention leave their gap; or heads in the order of a statistic. */
export function HeadGrid({ maps, order, keys, kinds, values, range, onTell, onOpen }: Props) {
  const theme = useTheme()
  const { run, id } = useCurrent()!
  const { heads } = run.opened
  const table = palette('sequential', theme)
  const body = useRef<HTMLDivElement>(null)
  const { columns, rows, named } = useMemo(
    () => arrange(heads, keys, order, maps ? 'maps' : 'cells'),
    [heads, keys, order, maps],
  )
  const thumbnails = useAsync<Thumbnail[]>(() => (maps ? run.remote.call('thumbnails') : null), [maps, run.remote])
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
    const index = Number(target.dataset.index)
    let row = rows.findIndex(({ cells }) => cells.includes(index))
    let column = rows[row].cells.indexOf(index)
    for (;;) {
      row += step[event.key][0]
      column += step[event.key][1]
      const next = rows[row]?.cells[column]
      if (next === undefined) return
      if (next !== null) {
        body.current!.querySelector<HTMLElement>(`[data-index="${next}"]`)!.focus()
        return
      }
    }
  }
  const chosen = heads.findIndex((head) => sameHead(head, id))

  return (
    <div
      class={`head-grid${maps ? ' maps' : ''}${named === 'no' ? '' : ' named'}`}
      style={{ '--rows': String(rows.length) }}
      aria-busy={thumbnails.loading}
      onKeyDown={onKeyDown}
      onMouseLeave={() => onTell(null)}
    >
      {columns.length > 0 && (
        <div class="head-row head-names" aria-hidden="true">
          <span />
          {columns.map((name, i) => (
            <span key={i}>{name}</span>
          ))}
        </div>
      )}
      <div class="head-body" ref={body} role="group" aria-label={`${GROUPS[order]}, arrow keys move, Enter opens`}>
        {rows.map(({ name, cells }) => (
          <div class="head-row" key={name}>
            <span class="layer-name" aria-hidden="true">
              {name}
            </span>
            {cells.map((index, place) => {
              if (index === null) return <span key={`none ${place}`} class="no-head" />
              const { part, layer, head } = heads[index]
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
                  key={index}
                  type="button"
                  class={run.exact?.has(`${part} ${layer} ${head}`) ? 'head held' : 'head'}
                  data-index={index}
                  tabIndex={index === Math.max(0, chosen) ? 0 : -1}
                  aria-current={index === chosen}
                  aria-label={`Head ${headName(heads[index], run.parts.length)}, ${kinds ? kinds[index] : number(values[index])}`}
                  style={{ background, color: background && (kinds ? inkOnHex(background) : inkOn(table, value)) }}
                  onMouseEnter={() => onTell(index)}
                  onFocus={() => onTell(index)}
                  onBlur={() => onTell(null)}
                  onClick={() => onOpen(index)}
                >
                  {thumbnail && <Small one={thumbnail} table={table} />}
                  {named !== 'no' && (
                    <span class="head-name" aria-hidden="true">
                      {named === 'head' ? head : `${layer}.${head}`}
                    </span>
                  )}
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

function Small({ one, table }: { one: Thumbnail; table: Uint8Array<ArrayBuffer> }) {
  const canvas = useRef<HTMLCanvasElement>(null)
  useEffect(
    () =>
      soon(() => {
        const pixels = new ImageData(one.keys, one.rows)
        const [colours, to] = [new Uint32Array(table.buffer), new Uint32Array(pixels.data.buffer)]
        for (let i = 0; i < to.length; i++) to[i] = colours[one.values[i]]
        canvas.current?.getContext('2d')!.putImageData(pixels, 0, 0)
      }),
    [one, table],
  )
  return <canvas ref={canvas} width={one.keys} height={one.rows} aria-hidden="true" />
}
