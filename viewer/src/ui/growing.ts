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
