import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { headName } from '../data/run'
import { number } from './format'
import { useGrowing } from './growing'
import { ranked } from './headorder'
import { sameHead, useCurrent, useShared, useState_ } from './model'
import { KINDS, type Measure } from './statistics'

const ROWS_AT_ONCE = 24
/** Which part of its width a table moves on, so that a column at the edge is seen whole. */
const SHIFT = 0.6

/** A name of several words on two lines of about the same length, so that its column is no wider than its numbers need. */
function inTwo(label: string) {
  const spaces = [...label].flatMap((letter, i) => (letter === ' ' ? [i] : []))
  if (label.length < 10 || spaces.length === 0) return label
  const longer = (at: number) => Math.max(at, label.length - at - 1)
  const at = spaces.reduce((best, next) => (longer(next) < longer(best) ? next : best))
  return (
    <>
      {label.slice(0, at + 1)}
      <br />
      {label.slice(at + 1)}
    </>
  )
}

/** Every head as a row, sorted by any column. */
export function HeadTable(props: { all: Measure[]; kinds: string[] | null; onOpen: (index: number) => void }) {
  const { run, id } = useCurrent()!
  const { heads } = run.opened
  const { state } = useShared()
  const named = useState_((s) => s.sort)
  const down = useState_((s) => s.down) === 'yes'
  const measure = props.all.find((m) => m.name === named)
  const sort = measure || (named === 'type' && props.kinds) ? named : 'head'
  const all = heads.map((_, i) => i)
  const values =
    measure?.values ?? (sort === 'type' ? props.kinds!.map((kind) => Object.keys(KINDS).indexOf(kind)) : all)
  const order = ranked(values, all, down)
  const shown = useGrowing(order.length, ROWS_AT_ONCE, `${run.order} ${sort} ${down}`)
  const column = (name: string, label: string, text = false) => (
    <th
      key={name}
      scope="col"
      class={text ? 'text' : ''}
      aria-sort={sort === name ? (down ? 'descending' : 'ascending') : 'none'}
    >
      <button
        type="button"
        onClick={() => state.set({ sort: name, down: (sort === name ? !down : !text) ? 'yes' : 'no' })}
      >
        {inTwo(label)}
        <span aria-hidden="true">{sort === name ? (down ? '\u00a0↓' : '\u00a0↑') : ''}</span>
      </button>
    </th>
  )
  const box = useRef<HTMLDivElement>(null)
  const [hidden, setHidden] = useState({ left: false, right: false })
  useLayoutEffect(() => {
    const element = box.current!
    const look = () => {
      const [left, right] = [element.scrollLeft > 1, element.scrollLeft < element.scrollWidth - element.clientWidth - 1]
      setHidden((before) => (before.left === left && before.right === right ? before : { left, right }))
    }
    look()
    element.addEventListener('scroll', look, { passive: true })
    const observer = new ResizeObserver(look)
    observer.observe(element)
    observer.observe(element.firstElementChild!)
    return () => {
      element.removeEventListener('scroll', look)
      observer.disconnect()
    }
  }, [])
  const turn = (way: 1 | -1) => box.current!.scrollBy({ left: way * SHIFT * box.current!.clientWidth })
  return (
    <>
      {(hidden.left || hidden.right) && (
        <div class="pages" data-unsaved>
          <button type="button" aria-label="Columns before" disabled={!hidden.left} onClick={() => turn(-1)}>
            ←
          </button>
          <span>{props.all.length + (props.kinds ? 2 : 1)} columns</span>
          <button type="button" aria-label="More columns" disabled={!hidden.right} onClick={() => turn(1)}>
            More →
          </button>
        </div>
      )}
      <div class={`sideways${hidden.right ? ' more' : ''}`}>
        <div class="scroll" tabIndex={0} role="region" aria-label="Table of heads" ref={box}>
          <table aria-busy={shown < order.length}>
            <thead>
              <tr>
                {column('head', 'head', true)}
                {props.kinds && column('type', 'type', true)}
                {props.all.map((m) => column(m.name, m.label))}
              </tr>
            </thead>
            <tbody>
              {order.slice(0, shown).map((i) => (
                <tr key={i} aria-current={sameHead(heads[i], id)} onClick={() => props.onOpen(i)}>
                  <th scope="row">
                    <button type="button" class="link">
                      {headName(heads[i], run.parts.length)}
                    </button>
                  </th>
                  {props.kinds && <td class="text">{KINDS[props.kinds[i]]}</td>}
                  {props.all.map((m) => (
                    <td key={m.name}>{number(m.values[i])}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
    </>
  )
}
