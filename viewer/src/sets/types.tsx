import { plural } from '../ui/format'
import type { Overview } from './documents'

/** The types of head that a set has, with how many heads are of each; a click shows which. */
export function Types(props: { overview: Overview; shown: string | null; onShow: (type: string | null) => void }) {
  const counts = new Map<string, number>()
  for (const type of props.overview.types.flat()) counts.set(type, (counts.get(type) ?? 0) + 1)
  if (counts.size === 0) return <p class="soft">no head is of a type on average over the texts</p>
  const most = [...counts].sort(([, one], [, other]) => other - one)
  return (
    <p role="group" aria-label="types of head">
      {most.map(([type, count]) => (
        <button
          key={type}
          class="set-type"
          aria-pressed={type === props.shown}
          title={`show the ${plural(count, 'head')} of this type`}
          onClick={() => props.onShow(type === props.shown ? null : type)}
        >
          {type} {count}
        </button>
      ))}
    </p>
  )
}
