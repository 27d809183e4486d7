import { useState } from 'preact/hooks'
import { headName } from '../data/run'
import { number } from './format'
import { sameHead, useCurrent } from './model'
import { KINDS, type Measure } from './statistics'

/** Every head as a row, sorted by any column. */
export function HeadTable(props: { all: Measure[]; kinds: string[] | null; onOpen: (index: number) => void }) {
  const { run, id } = useCurrent()!
  const { heads } = run.opened
  const [sort, setSort] = useState<{ name: string; down: boolean }>({ name: 'head', down: false })
  const measure = props.all.find((m) => m.name === sort.name)
  const order = heads.map((_, i) => i)
  const value = (i: number) =>
    measure ? measure.values[i] : sort.name === 'type' ? Object.keys(KINDS).indexOf(props.kinds![i]) : i
  order.sort((a, b) => {
    const [p, q] = [value(a), value(b)]
    if (Number.isNaN(p) || Number.isNaN(q)) return Number(Number.isNaN(p)) - Number(Number.isNaN(q))
    return (sort.down ? q - p : p - q) || a - b
  })
  const column = (name: string, label: string, text = false) => (
    <th
      key={name}
      scope="col"
      class={text ? 'text' : ''}
      aria-sort={sort.name === name ? (sort.down ? 'descending' : 'ascending') : 'none'}
    >
      <button type="button" onClick={() => setSort({ name, down: sort.name === name ? !sort.down : !text })}>
        {label}
        <span aria-hidden="true">{sort.name === name ? (sort.down ? ' ↓' : ' ↑') : ''}</span>
      </button>
    </th>
  )
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of heads">
      <table>
        <thead>
          <tr>
            {column('head', 'head', true)}
            {props.kinds && column('type', 'type', true)}
            {props.all.map((m) => column(m.name, m.label))}
          </tr>
        </thead>
        <tbody>
          {order.map((i) => (
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
  )
}
