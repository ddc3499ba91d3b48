/**
 * `hermes chat`: a conversation, or one query and its answer.
 */
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

/** Runs `hermes chat`, and `hermes` without a command. */
export const run = (flags: Flags.Globals & Flags.Chat) =>
  perform(flags, () => import("./ChatActions.ts"), ({ chat }) => chat(flags))

export const chatCommand = Command.make(
  "chat",
  Flags.chat,
  (flags) => Effect.flatMap(hermes, (shared) => run({ ...shared, ...flags }))
).pipe(
  Command.withDescription("Start a conversation, or send one prompt with --query"),
  Command.withExamples([
    { command: "hermes chat", description: "Start a conversation" },
    { command: "git diff | hermes chat --query-file - --quiet", description: "Read a prompt from a pipe and print only the answer" }
  ])
)
