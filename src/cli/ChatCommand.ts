/**
 * `hermes chat`: a conversation, or one query and its answer.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

/** What `hermes chat` does, and `hermes` without a command. */
export const run = (flags: Flags.Globals & Flags.Chat) =>
  perform(flags, () => import("./Chat.ts"), ({ chat }) => chat(flags))

/** See the module. */
export const chatCommand = Command.make(
  "chat",
  Flags.chat,
  (flags) => Effect.flatMap(hermes, (shared) => run({ ...shared, ...flags }))
).pipe(
  Command.withDescription("Talk to the agent, or ask it one thing with --query"),
  Command.withExamples([
    { command: "hermes chat", description: "A conversation in the terminal" },
    { command: "git diff | hermes chat --query-file - --quiet", description: "A question from a pipe, its answer into the next" }
  ])
)
