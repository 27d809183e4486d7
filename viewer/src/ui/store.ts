import { useLayoutEffect, useReducer } from 'preact/hooks'

/** One value that components can watch a part of. */
export class Store<T extends object> {
  private listeners = new Set<() => void>()
  constructor(private value: T) {}

  get(): T {
    return this.value
  }

  set(change: Partial<T>): void {
    let same = true
    for (const key of Object.keys(change) as (keyof T)[]) if (!Object.is(this.value[key], change[key])) same = false
    if (same) return
    this.value = { ...this.value, ...change }
    for (const listener of [...this.listeners]) listener()
  }

  watch(listener: () => void): () => void {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }
}

/** The selected part; the component renders again only when that part changes. */
export function useStore<T extends object, U>(store: Store<T>, select: (value: T) => U): U {
  const [, again] = useReducer((n: number) => n + 1, 0)
  const part = select(store.get())
  // watched from the moment it is drawn, not from a moment after the next frame
  useLayoutEffect(() => {
    let last = select(store.get())
    if (!Object.is(last, part)) again(0)
    return store.watch(() => {
      const now = select(store.get())
      if (!Object.is(now, last)) {
        last = now
        again(0)
      }
    })
  }, [store])
  return part
}
