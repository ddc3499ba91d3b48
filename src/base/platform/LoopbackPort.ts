/**
 * Listens on a port of the loopback address. An Effect serves each connection, which has a stream of bytes in each
 * direction.
 */
import * as NodeSink from "@effect/platform-node-shared/NodeSink"
import * as NodeStream from "@effect/platform-node-shared/NodeStream"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Sink from "effect/Sink"
import type * as Stream from "effect/Stream"
import { createServer, type Server, type Socket } from "node:net"

/** Error raised when a connection breaks or the other side closes it. */
export interface ConnectionCut {
  readonly _tag: "ConnectionCut"
}

const makeCut = (): ConnectionCut => ({ _tag: "ConnectionCut" })

/** Connection of a client. Each direction ends independently. */
export interface Connection {
  readonly input: Stream.Stream<Uint8Array, ConnectionCut>
  readonly output: Sink.Sink<void, Uint8Array, never, ConnectionCut>
}

/** Listens on the preferred port. If it is in use, listens on any free port. Returns the port. */
const listenOnPort = (server: Server, preferred: number): Effect.Effect<number, string> =>
  Effect.callback<number, string>((resume) => {
    const onListening = (): void => {
      const address = server.address()
      resume(
        typeof address === "object" && address !== null
          ? Effect.succeed(address.port)
          : Effect.fail("the system gave no port")
      )
    }
    const onError = ({ message }: Error): void => resume(Effect.fail(message))
    server.once("listening", onListening).once("error", onError).listen(preferred, "127.0.0.1")
    return Effect.sync(() => server.off("listening", onListening).off("error", onError))
  }).pipe(Effect.catch((message) => (preferred === 0 ? Effect.fail(message) : listenOnPort(server, 0))))

/**
 * Serves the connections to a port of 127.0.0.1 until the scope ends; open connections are then closed. The preferred
 * port is used if it is free. A connection is closed when its `serve` Effect ends. Fails with the system's error
 * message if no port can be opened.
 */
export const listen = (
  preferred: number,
  serve: (connection: Connection) => Effect.Effect<void>
): Effect.Effect<number, string, Scope.Scope> =>
  Effect.gen(function* () {
    const run = Effect.runForkWith(yield* Effect.context())
    const open = new Set<Socket>()
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      open.add(socket)
      // If the connection is in use, its streams report the error. Otherwise the error is ignored.
      socket.on("error", () => void socket.destroy()).once("close", () => open.delete(socket))
      const fiber = run(
        serve({
          input: NodeStream.fromReadable<Uint8Array, ConnectionCut>({
            evaluate: () => socket,
            onError: makeCut,
            closeOnDone: false
          }),
          output: NodeSink.fromWritable<ConnectionCut, Uint8Array>({ evaluate: () => socket, onError: makeCut })
        })
      )
      fiber.addObserver(() => socket.destroySoon())
      socket.once("close", () => void fiber.interruptUnsafe())
    })
    const port = yield* Effect.acquireRelease(listenOnPort(server, preferred), () =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        for (const socket of open) socket.destroy()
      })
    )
    return port
  })
