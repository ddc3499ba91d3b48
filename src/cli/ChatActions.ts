/**
 * Action of `hermes chat`: decides between a conversation and one query.
 *
 * Source: `hermes-product.md` §1.2.
 */
import * as Effect from "effect/Effect"
import type { ChatFlags } from "./RunOptions.ts"
import { usage } from "./Failure.ts"
import { Output } from "./ProgramOutput.ts"
import * as PromptInput from "./PromptInput.ts"
import * as SingleQuery from "./SingleQuery.ts"

const needsQuery = (what: string) => usage(`${what} needs a prompt: add -q TEXT or --query-file PATH`)

export const chat = Effect.fn("hermes chat")(function*(flags: ChatFlags) {
  if (flags.resume !== undefined && flags.continue !== undefined) {
    return yield* usage("--resume and --continue exclude each other: use one of them")
  }
  if (flags.script !== undefined && flags.replay !== undefined) {
    return yield* usage("--script and --replay exclude each other: use one of them")
  }
  const { err, terminal } = yield* Output
  const input = yield* PromptInput.piped(flags, terminal.piped, (line) => err(`${line}\n`))
  if (flags.query === undefined && flags.queryFile === undefined && input === undefined) {
    if (flags.format === "stream-json") return yield* needsQuery("--format stream-json")
    if (flags.quiet) return yield* needsQuery("--quiet")
    if (flags.oneshot) return yield* needsQuery("--oneshot")
  }
  if (flags.ignoreUserConfig) {
    const IgnoredPlugins = yield* Effect.promise(() => import("./IgnoredPlugins.ts"))
    yield* IgnoredPlugins.tell
  }
  const prompt = yield* PromptInput.read(flags, input)
  if (prompt !== undefined) return yield* SingleQuery.run(flags, prompt)
  if (!terminal.input) {
    return yield* usage("Not a terminal. Pass a prompt with -q TEXT, or pipe one.")
  }
  const InteractiveChat = yield* Effect.promise(() => import("./InteractiveChat.ts"))
  return yield* InteractiveChat.run(flags)
})
