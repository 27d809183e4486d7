import { serve, type Request } from './data/remote'

const scope = self as unknown as { postMessage(message: unknown, transfer: Transferable[]): void; onmessage: unknown }
const receive = serve((reply, transfer) => scope.postMessage(reply, transfer))
scope.onmessage = (event: MessageEvent<Request>) => void receive(event.data)
