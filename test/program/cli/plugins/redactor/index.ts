import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Middleware, type ModelCall, Plugin } from "hermes-effect"

/** Joins the text of a batch, so that a word which the parts cut is whole. */
const joinText = (parts: ReadonlyArray<ModelCall.StreamPart>): string =>
  parts.map((part) => (part.type === "text-delta" ? part.delta : "")).join("")

/** Tests whether a text may end within the word. */
const endsWithin = (text: string, word: string): boolean =>
  Array.from({ length: word.length - 1 }, (_, index) => word.slice(0, index + 1)).some((start) => text.endsWith(start))

/** Puts the redacted text into the first part that has text, and empties the others. */
const redact = (parts: ReadonlyArray<ModelCall.StreamPart>, word: string): ReadonlyArray<ModelCall.StreamPart> => {
  const text = joinText(parts).replaceAll(word, "[x]")
  const first = parts.findIndex((part) => part.type === "text-delta")
  return parts.map((part, index) =>
    part.type === "text-delta" ? { ...part, delta: index === first ? text : "" } : part
  )
}

export default Plugin.make({
  name: "redactor",
  config: Schema.Struct({ word: Schema.String.pipe(Schema.withDecodingDefaultKey(Effect.succeed("SECRET"))) }),
  build: ({ config: { word } }) =>
    Effect.succeed({
      middleware: [
        Middleware.llmExecution({
          name: "redact",
          onFailure: "closed",
          wrap: (next) => (request) =>
            next(request, {
              onPart: (parts) =>
                Effect.succeed(
                  endsWithin(joinText(parts), word) && !parts.some((part) => part.type === "finish")
                    ? Middleware.hold
                    : redact(parts, word)
                )
            })
        })
      ]
    })
})
