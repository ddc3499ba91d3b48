import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as Secrets from "../../src/base/domain/Secrets.ts"
import { SessionSearch } from "../../src/store/SessionSearch.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { makeNewSession, makeUserMessage } from "../../src/kit/testing/SessionSamples.ts"
import * as SessionStoreRules from "../../src/kit/testing/SessionStoreRules.ts"
import { encoded, plantedKeys } from "./plantedKeys.ts"
import * as PromptMessages from "./promptMessages.ts"
import { effectProp } from "./property.ts"

export {
  makeAssistantMessage,
  makeToolCalls,
  makeNewSession,
  buildToolResult,
  makeUserMessage
} from "../../src/kit/testing/SessionSamples.ts"

/** The URLs of files, which a deep comparison takes for equal whatever they are. */
const addresses = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<string> => {
  const parts = messages.flatMap((message): ReadonlyArray<Prompt.Part> =>
    message.role === "system" ? [] : message.content
  )
  return parts.flatMap((part) => (part.type === "file" && part.data instanceof URL ? [part.data.href] : []))
}

const a = SessionId.make("20250102_030405_aaaaaa")

/**
 * What every session store does, whatever it keeps sessions in: the rules of the package, and those that need generated
 * messages and keys.
 */
export const suite = (name: string, layer: Layer.Layer<SessionStore | SessionSearch>): void => {
  const test = <E>(title: string, body: Effect.Effect<void, E, SessionStore | SessionSearch>): void =>
    it.effect(title, () => Effect.provide(body, layer, { local: true }))

  describe(`${name}`, () => {
    for (const { about, check, name: rule } of SessionStoreRules.rules) {
      it.effect(`${about}: ${rule}`, () => Effect.provide(check, layer, { local: true }))
    }
  })

  describe(`${name}: messages`, () => {
    effectProp(
      "of any kind come back equal",
      { messages: PromptMessages.messages },
      ({ messages }) =>
        Effect.gen(function* () {
          const store = yield* SessionStore
          yield* store.create(makeNewSession(a))
          yield* store.append(a, messages)
          const read = yield* store.messages(a)
          assert.deepStrictEqual(read, messages)
          assert.deepStrictEqual(addresses(read), addresses(messages))
        }).pipe(Effect.provide(layer, { local: true })),
      { arbitrary: { runs: 60 } }
    )
  })

  describe(`${name}: secrets`, () => {
    test(
      "what a runtime holds is in nothing that is kept or found, nor are keys that a model or a tool says",
      Secrets.provideRegistry(
        Effect.gen(function* () {
          const store = yield* SessionStore
          const held = "Kq7vWn2pXr9-nobody-knows-tB4mZc6y"
          const [, foreign = ""] = plantedKeys[0] ?? []
          yield* Secrets.registerSecrets({ key: Redacted.make(held) })
          const text = Object.values(encoded)
            .map((encode) => encode(held))
            .join(" and ")
          const plain = makeUserMessage("no secret in it")
          const options = { test: { signed: text } }
          const messages = [
            makeUserMessage(text),
            Prompt.systemMessage({ content: text }),
            Prompt.assistantMessage({
              content: [
                Prompt.reasoningPart({ text, options }),
                Prompt.textPart({ text: `${text} ${foreign}` }),
                Prompt.toolCallPart({
                  id: "c1",
                  name: "read_file",
                  params: { deep: [{ path: text }] },
                  providerExecuted: false
                })
              ]
            }),
            Conversation.makeToolResult(
              { id: "c1", name: "read_file" },
              { output: { list: [text, foreign] }, isFailure: false, modelOutput: [Prompt.textPart({ text })] }
            ),
            plain
          ]
          yield* store.create(makeNewSession(a, { title: `about ${held}`, systemPrompt: text }))
          yield* store.append(a, messages)
          const session = Option.getOrThrow(yield* store.get(a))
          const kept = yield* store.messages(a)
          const search = yield* SessionSearch
          const found = yield* search.search("and", {})
          assert.isAbove(found.length, 0)
          const seen = JSON.stringify([session, kept, found])
          for (const [form, encode] of Object.entries(encoded))
            assert.notInclude(seen, form.includes("JSON") ? held : encode(held).slice(4, -6), form)
          assert.notInclude(seen, foreign.slice(4, -6))
          yield* store.rename(a, `now ${held}`)
          assert.notInclude(Option.getOrThrow(yield* store.get(a)).title ?? "", held)
          // They are messages still, in the same places.
          assert.deepStrictEqual(
            kept.map(({ role }) => role),
            messages.map(({ role }) => role)
          )
          assert.isTrue(kept.every(Prompt.isMessage))
          assert.deepStrictEqual(kept.at(-1), plain)
        })
      )
    )
  })
}
