import { headName } from '../data/run'
import { number } from './format'
import { useGrowing } from './growing'
import { ranked } from './headorder'
import { sameHead, useCurrent, useShared, useState_ } from './model'
import { KINDS, type Measure } from './statistics'

const ROWS_AT_ONCE = 24

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
  const shown = useGrowing(order.length, ROWS_AT_ONCE, `${run.name} ${sort} ${down}`)
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
        {label}
        <span aria-hidden="true">{sort === name ? (down ? ' ↓' : ' ↑') : ''}</span>
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
  )
}
