// Messages of a list, as a tree of runs gives those of an attempt.
import type * as Prompt from "effect/ai/Prompt"
import type { SentMessages } from "../../../src/observe/RunTree.ts"

export const sentOf = (messages: ReadonlyArray<Prompt.Message | undefined>): SentMessages => {
  const said = messages.filter(
    (message) => message !== undefined && message.role !== "system"
  ) as ReadonlyArray<Prompt.Message>
  return {
    count: messages.length,
    system: messages.filter((message) => message?.role === "system"),
    said: said.length,
    newest: (wants) => void said.toReversed().every(wants),
    messages: () => messages,
    fresh: []
  }
}
