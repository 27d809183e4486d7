import { RunError, type Source } from './source'

/** What anywidget gives a widget. */
export interface AnyModel {
  get(name: string): unknown
  set(name: string, value: unknown): void
  save_changes(): void
  send(content: unknown): void
  on(event: string, listener: (...args: never[]) => void): void
  off(event: string, listener: (...args: never[]) => void): void
}

type Answer = { id: string; error?: string }

/** Bytes of the kernel's runs, asked for by message. Answers carry the asker's name: views of one model share messages. */
export function widgetSource(model: AnyModel): { source(run: number): Source; close(): void } {
  const mine = Math.random().toString(36).slice(2)
  const waiting = new Map<string, { resolve: (bytes: Uint8Array) => void; reject: (error: Error) => void }>()
  let next = 0
  const listen = (answer: Answer, buffers: DataView[]) => {
    const promise = waiting.get(answer.id)
    if (!promise) return
    waiting.delete(answer.id)
    if (answer.error) promise.reject(new RunError(answer.error))
    else {
      const [{ buffer, byteOffset, byteLength }] = buffers
      promise.resolve(new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength).slice())
    }
  }
  model.on('msg:custom', listen)
  return {
    source: (run) => ({
      read: (path, start, end) =>
        new Promise((resolve, reject) => {
          const id = `${mine} ${next++}`
          waiting.set(id, { resolve, reject })
          model.send({ id, run, path, start, end })
        }),
    }),
    close: () => model.off('msg:custom', listen),
  }
}
