/**
 * Forwards a port of the loopback address on this machine to a port in an environment. Each connection is carried by a
 * separate process that ends with the connection.
 *
 * **Details**
 *
 * The local port number equals the port in the environment if it is free on this machine, and is any free number
 * otherwise. The port in the environment does not need a listener yet: until it has one, connections are closed.
 *
 * **Gotchas**
 *
 * Every user and program on this machine can connect while the scope is open: bytes are passed on unchanged, without
 * authentication. The program in the environment has to authenticate its clients.
 */
import * as Effect from "effect/Effect"
import type { PlatformError } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import type * as Scope from "effect/Scope"
import type { ChildProcessHandle } from "effect/process/ChildProcessSpawner"
import * as LoopbackPort from "../base/platform/LoopbackPort.ts"
import { type Address, checkPort, makePortError } from "./PortAddress.ts"

/**
 * Opens a forwarded port. Each connection is carried by a process whose standard streams are connected to the port in
 * the environment.
 */
export const carryConnections = (
  port: number,
  bridge: Effect.Effect<ChildProcessHandle, PlatformError, Scope.Scope>
): Effect.Effect<Address, PlatformError, Scope.Scope> =>
  Effect.gen(function* () {
    yield* checkPort(port)
    const serveConnection = ({ input, output }: LoopbackPort.Connection) =>
      Effect.scoped(
        Effect.gen(function* () {
          const handle = yield* bridge
          yield* Effect.forkScoped(Effect.ignore(Stream.run(input, handle.stdin)))
          yield* Stream.run(handle.stdout, output)
        })
      ).pipe(Effect.catch((error) => Effect.logDebug("a connection to a port of the environment ended", error)))
    const own = yield* Effect.mapError(LoopbackPort.listen(port, serveConnection), (message) =>
      makePortError(port, message)
    )
    return { host: "127.0.0.1", port: own }
  })

/** Source code of a program that connects its standard streams to the port in its argument. */
export const carrier = `
const socket = require("node:net").connect(Number(process.argv[1]), "localhost")
process.stdin.pipe(socket)
socket.pipe(process.stdout)
socket.on("error", ({ message }) => { console.error(message); process.exit(1) }).on("close", () => process.exit())
`

/** Script that connects its standard streams to the port `$1`, with a program available in the environment. */
export const carrierScript = [
  `if command -v node >/dev/null; then exec node -e '${carrier}' "$1"`,
  `elif command -v nc >/dev/null; then exec nc 127.0.0.1 "$1"`,
  `elif command -v bash >/dev/null; then exec bash -c 'exec 3<>"/dev/tcp/localhost/$0" && { cat <&3 & cat >&3; ` +
    `wait; }' "$1"`,
  `else echo "a port of this environment needs node, nc or bash in it" >&2; exit 127; fi`
].join("\n")
