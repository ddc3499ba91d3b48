/** Address of a port of an environment on this machine, and the errors of ports. */
import * as Effect from "effect/Effect"
import { type PlatformError, systemError } from "effect/PlatformError"

/** Local address of a forwarded port. */
export interface Address {
  readonly host: string
  readonly port: number
}

/** Creates the error of a port that is not available. */
export const makePortError = (port: number, description: string): PlatformError =>
  systemError({ _tag: "BadResource", module: "Socket", method: "forward", pathOrDescriptor: String(port), description })

/** Fails if a number is not a valid port. */
export const checkPort = (port: number): Effect.Effect<void, PlatformError> =>
  Number.isInteger(port) && port > 0 && port < 65_536
    ? Effect.void
    : Effect.fail(makePortError(port, "a port is a number from 1 to 65535"))

/** Returns the local address of a port in an environment that uses the network of this machine. */
export const toLocalAddress = (port: number): Effect.Effect<Address, PlatformError> =>
  Effect.as(checkPort(port), { host: "localhost", port })
