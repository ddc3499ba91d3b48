/**
 * `hermes acp`: serves the agent over stdin and stdout to editors that speak the Agent Client Protocol, until the
 * editor closes the connection.
 *
 * Each session has its own runtime, created for its directory. Project files take effect once the folder is trusted,
 * and the MCP servers named by the editor run in addition to the configured servers.
 *
 * Source: Agent Client Protocol, `hermes-product.md` §1.1 and §2.2.
 */
import * as Effect from "effect/Effect"
import * as Stdio from "effect/Stdio"
import * as Command from "effect/cli/Command"
import * as CommandSettings from "./CommandSettings.ts"
import { Output } from "./ProgramOutput.ts"

const serveEditor = Effect.fn("hermes acp")(
  function* () {
    const { protect, streams } = yield* Output
    const { stdin } = yield* Stdio.Stdio
    yield* protect
    const [AcpAgent, AcpSessions] = yield* Effect.promise(() =>
      Promise.all([import("../../serve/server/acp/AcpAgent.ts"), import("./AcpSessions.ts")])
    )
    const host = yield* AcpSessions.make
    yield* AcpAgent.serve(host, { input: stdin, write: (text) => streams.answer.write(text) })
  },
  Effect.scoped,
  CommandSettings.provide
)

/** The command `hermes acp`, which serves the agent to an editor over standard streams. */
export const command = Command.make("acp", {}, serveEditor)
