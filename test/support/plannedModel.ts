// A model that is a function of the conversation: the last message of the user, and the number of answers after it. Any
// process that has the conversation continues it in the same way.
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Prompt from "effect/ai/Prompt"
import type { ModelResponse } from "../../src/base/domain/ModelCall.ts"
import { Provider, type Service } from "../../src/models/provider/Provider.ts"
import * as Fake from "./fakeModel.ts"

const readText = (message: Prompt.Message | undefined): string =>
  message?.role === "user" ? message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("") : ""

/** The model. `plan` returns the answer number `step`, counted from 0, to a message. `before` runs before each answer. */
export const make = (
  plan: (prompt: string, step: number) => ModelResponse,
  before: Effect.Effect<void> = Effect.void
): Layer.Layer<Provider> => {
  const base = Fake.make(Fake.text("unused")).provider
  const provider: Service = {
    ...base,
    prepare: ({ messages }) =>
      Effect.sync(() => {
        const at = messages.findLastIndex(({ role }) => role === "user")
        const step = messages.slice(at).filter(({ role }) => role === "assistant").length
        return { prompt: readText(messages[at]), step }
      }),
    execute: (request) => Effect.map(before, () => plan(String(request["prompt"]), Number(request["step"])))
  }
  return Layer.succeed(Provider, provider)
}
