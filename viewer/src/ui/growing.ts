/** Work in slices, so that nothing that is built keeps the page from answering. */
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'

/** How many of `total` parts to build now: `step` at once, and as many more whenever the page has a moment. */
export function useGrowing(total: number, step: number, what: string): number {
  const [built, setBuilt] = useState({ what, count: step })
  const count = built.what === what ? built.count : step
  useEffect(() => {
    if (count >= total) return
    const timer = setTimeout(() => setBuilt({ what, count: count + step }), 0)
    return () => clearTimeout(timer)
  }, [count, total, what])
  return Math.min(total, count)
}

/** Built after as many turns of the page as `turn` says, so that what matters most is there first. */
export function Later(props: { turn: number; until?: ComponentChildren; children: ComponentChildren }) {
  return useGrowing(props.turn + 1, 1, '') > props.turn ? props.children : props.until
}

const SLICE_MS = 8
const waiting: (() => void)[] = []

/** Does a small piece of work soon, with others that wait, a few milliseconds at a time. */
export function soon(work: () => void): void {
  waiting.push(work)
  if (waiting.length === 1) setTimeout(slice, 0)
}

function slice(): void {
  const end = performance.now() + SLICE_MS
  do waiting.shift()!()
  while (waiting.length > 0 && performance.now() < end)
  if (waiting.length > 0) setTimeout(slice, 0)
}
