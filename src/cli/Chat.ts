/**
 * What `hermes chat` does: decides between a conversation and one query.
 *
 * Source: `hermes-product.md` §1.2.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { ChatFlags } from "./Asking.ts"
import { usage } from "./Failure.ts"
import { Output } from "./Output.ts"
import * as Query from "./Query.ts"
import * as SingleQuery from "./SingleQuery.ts"

const needsQuery = (what: string) => usage(`${what} needs a query: add -q TEXT or --query-file PATH`)

/** See the module. */
export const chat = Effect.fn("hermes chat")(function*(flags: ChatFlags) {
  if (flags.resume !== undefined && flags.continue !== undefined) {
    return yield* usage("--resume and --continue exclude each other: give one of them")
  }
  if (flags.script !== undefined && flags.replay !== undefined) {
    return yield* usage("--script and --replay exclude each other: give one of them")
  }
  if (flags.query === undefined && flags.queryFile === undefined) {
    if (flags.format === "stream-json") return yield* needsQuery("--format stream-json")
    if (flags.quiet) return yield* needsQuery("--quiet")
    if (flags.oneshot) return yield* needsQuery("--oneshot")
  }
  if (flags.ignoreUserConfig) {
    const PluginsLost = yield* Effect.promise(() => import("./PluginsLost.ts"))
    yield* PluginsLost.tell
  }
  const prompt = yield* Query.read(flags)
  if (prompt !== undefined) return yield* SingleQuery.run(flags, prompt)
  const { terminal } = yield* Output
  if (!terminal.input) {
    return yield* usage("nobody can type here: give a query by -q TEXT, or by --query-file - from stdin")
  }
  const Conversation = yield* Effect.promise(() => import("./Conversation.ts"))
  return yield* Conversation.run(flags)
})
