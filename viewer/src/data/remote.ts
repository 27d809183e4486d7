/** The engine behind a message channel, so that nothing it does can block the page. */
import { Engine } from './engine'
import { served } from './served'
import { LeftOutError, RunError, type Source } from './source'
import { rehearse } from './weights'

type Method = Exclude<keyof Engine, 'prototype'>

export type Request =
  | { type: 'start'; at: string | null }
  | { type: 'call'; id: number; method: string; args: unknown[] }
  | { type: 'cancel'; id: number }
  | { type: 'bytes'; id: number; bytes?: Uint8Array; error?: Failure }

export type Reply =
  | { type: 'ready' }
  | { type: 'result'; id: number; value?: unknown; error?: Failure }
  | { type: 'read'; id: number; path: string; start: number; end: number | null }

interface Failure {
  name: string
  message: string
}

const describe = (error: unknown): Failure =>
  error instanceof Error ? { name: error.name, message: error.message } : { name: 'Error', message: String(error) }

const revive = ({ name, message }: Failure): Error => {
  if (name === 'LeftOutError') return new LeftOutError(message)
  if (name === 'RunError') return new RunError(message)
  return Object.assign(new Error(message), { name })
}

export class CancelledError extends Error {
  override name = 'CancelledError'
}

/** Slices of this length keep a page at 60 frames a second, where the engine has to share its thread. */
const SLICE_MS = 8
const WORKER_SLICE_MS = 40

function tick(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      port1.close()
      resolve()
    }
    port2.postMessage(null)
  })
}

/** Lets other work in every few milliseconds, and stops what was cancelled. */
function pausing(cancelled: Set<number>, slice: number): (ticket: number) => Promise<void> | undefined {
  let since = performance.now()
  return (ticket) => {
    if (performance.now() - since < slice) return undefined
    return tick().then(() => {
      since = performance.now()
      if (cancelled.has(ticket)) throw new CancelledError('cancelled')
    })
  }
}

function transferables(value: unknown): Transferable[] {
  const found = new Set<ArrayBuffer>()
  const visit = (item: unknown, depth: number) => {
    if (ArrayBuffer.isView(item)) found.add(item.buffer as ArrayBuffer)
    else if (depth < 4 && item && typeof item === 'object')
      for (const inner of Object.values(item)) visit(inner, depth + 1)
  }
  visit(value, 0)
  return [...found]
}

/** The worker's side. */
export function serve(post: (reply: Reply, transfer: Transferable[]) => void): (request: Request) => void {
  const waiting = new Map<number, { resolve: (bytes: Uint8Array) => void; reject: (error: Error) => void }>()
  const cancelled = new Set<number>()
  let next = 0
  const asking: Source = {
    read: (path, start, end) =>
      new Promise((resolve, reject) => {
        const id = next++
        waiting.set(id, { resolve, reject })
        post({ type: 'read', id, path, start, end }, [])
      }),
  }
  let engine: Engine
  post({ type: 'ready' }, [])
  return async (request) => {
    if (request.type === 'start') {
      const source = request.at === null ? asking : served(request.at, asking)
      engine = new Engine(source, pausing(cancelled, WORKER_SLICE_MS))
      for (const first of [engine.open(), engine.telling()]) first.catch(() => undefined) // told to whoever asks
    } else if (request.type === 'cancel') cancelled.add(request.id)
    else if (request.type === 'bytes') {
      const promise = waiting.get(request.id)
      waiting.delete(request.id)
      if (request.error) promise?.reject(revive(request.error))
      else promise?.resolve(request.bytes!)
    } else {
      const { id } = request
      try {
        const method = engine[request.method as Method] as (...args: unknown[]) => Promise<unknown>
        const value = await method.apply(engine, request.args)
        post({ type: 'result', id, value }, request.method === 'open' ? [] : transferables(value))
        if (request.method === 'open') void rehearse(tick) // while the page draws what it got
      } catch (error) {
        post({ type: 'result', id, error: describe(error) }, [])
      } finally {
        cancelled.delete(id)
      }
    }
  }
}

export interface Job<T> {
  done: Promise<T>
  cancel(): void
}

/** The page's side: calls the engine, wherever it runs. */
export interface Remote {
  /** Where the engine runs; shown to nobody, but tests ask. */
  readonly place: 'worker' | 'page'
  call<T>(method: string, ...args: unknown[]): Promise<T>
  window<T>(spec: unknown): Job<T>
  close(): void
}

/** How long a worker may take to start before the page does without. */
const START_MS = 5000

/** Starts the engine in a worker; where the page's policy or the browser forbids that, on the page in short slices. */
export async function start(source: Source, code: string): Promise<Remote> {
  const url = URL.createObjectURL(new Blob([code], { type: 'text/javascript' }))
  try {
    const worker = new Worker(url)
    const { remote, ready } = overMessages(worker, source)
    if (await ready) return remote
    worker.terminate()
  } catch {
    // told by the place where the engine runs
  } finally {
    URL.revokeObjectURL(url)
  }
  return onPage(source)
}

/** `ready`: whether the worker has started. */
function overMessages(worker: Worker, source: Source): { remote: Remote; ready: Promise<boolean> } {
  const waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>()
  let next = 1
  let started: (ready: boolean) => void
  const ready = new Promise<boolean>((resolve) => (started = resolve))
  setTimeout(() => started(false), START_MS)
  worker.onerror = (event) => {
    event.preventDefault()
    started(false)
  }
  worker.postMessage({ type: 'start', at: source.at ?? null } satisfies Request)
  worker.onmessage = async ({ data }: MessageEvent<Reply>) => {
    if (data.type === 'ready') {
      worker.onerror = null
      started(true)
    } else if (data.type === 'read') {
      const reply = (message: Request, transfer: Transferable[]) => worker.postMessage(message, transfer)
      try {
        const bytes = await source.read(data.path, data.start, data.end)
        const own = bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice()
        reply({ type: 'bytes', id: data.id, bytes: own }, [own.buffer])
      } catch (error) {
        reply({ type: 'bytes', id: data.id, error: describe(error) }, [])
      }
    } else if (data.type === 'result') {
      const promise = waiting.get(data.id)
      waiting.delete(data.id)
      if (data.error) promise?.reject(revive(data.error))
      else promise?.resolve(data.value as never)
    }
  }
  const send = <T>(method: string, args: (id: number) => unknown[]): Job<T> => {
    const id = next++
    const done = new Promise<T>((resolve, reject) => waiting.set(id, { resolve, reject }))
    worker.postMessage({ type: 'call', id, method, args: args(id) } satisfies Request)
    return { done, cancel: () => worker.postMessage({ type: 'cancel', id } satisfies Request) }
  }
  const remote: Remote = {
    place: 'worker',
    call: <T>(method: string, ...args: unknown[]) => send<T>(method, () => args).done,
    window: (spec) => send('window', (id) => [spec, id]),
    close: () => worker.terminate(),
  }
  return { remote, ready }
}

function onPage(source: Source): Remote {
  const cancelled = new Set<number>()
  const engine = new Engine(source, pausing(cancelled, SLICE_MS))
  let next = 1
  return {
    place: 'page',
    call: <T>(method: string, ...args: unknown[]) =>
      (engine[method as Method] as (...args: unknown[]) => Promise<unknown>).apply(engine, args) as Promise<T>,
    window<T>(spec: unknown) {
      const id = next++
      const done = engine.window(spec as never, id).finally(() => cancelled.delete(id))
      return { done: done as Promise<unknown> as Promise<T>, cancel: () => cancelled.add(id) }
    },
    close: () => undefined,
  }
}
