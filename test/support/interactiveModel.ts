// An agent for tests of the interactive session: it does what the user's words say.
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import type { StreamPart } from "../../src/base/domain/ModelCall.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Clarify from "../../src/tools/builtin/Clarify.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "./fakeModel.ts"

export const answerText = [
  "# Answer\n\nThe file `package.json` says **two** things:\n\n",
  "- the name is *hermes-effect*, which is a rather long name for a package, so that this line has to be broken somewhere\n",
  "- the version is 0.1.0\n\n| Key | Value |\n|---|--:|\n| name | hermes-effect |\n| version | 0.1.0 |\n\n",
  '```json\n{ "name": "hermes-effect" }\n```\n\nThat is all.'
]

const Nap = Tool.make("nap", {
  description: "Sleeps",
  parameters: Schema.Struct({ name: Schema.String, millis: Schema.Finite }),
  success: Schema.String
}).annotate(Tool.Readonly, true)

const Wipe = Tool.make("wipe", { description: "Wipes the table", success: Schema.String }).annotate(
  Tool.Destructive,
  true
)

const toolkit = Toolkit.make(Nap, Wipe)
const handlers = toolkit.toLayer({
  wipe: () => Effect.succeed("it shines"),
  nap: ({ millis, name }) =>
    name === "broken" ? Effect.die(new Error("no bed")) : Effect.as(Effect.sleep(millis), `${name} slept`)
})

/** Text of the last thing that the user said: a turn that failed leaves its own before it, in the same message. */
const textOf = (message: Prompt.Message | undefined): string =>
  message?.role === "user"
    ? (message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).at(-1) ?? "")
    : ""

/** Streams with pauses of so many milliseconds. */
const say =
  (texts: ReadonlyArray<string>, millis: number): Fake.Turn =>
  (_, options) =>
    Effect.gen(function* () {
      const show = (part: StreamPart) => (options?.onPart === undefined ? Effect.void : options.onPart([part]))
      yield* show(Response.makePart("text-start", { id: "1" }))
      for (const delta of texts) {
        yield* show(Response.makePart("text-delta", { id: "1", delta }))
        if (millis > 0) yield* Effect.sleep(millis)
      }
      return Fake.textAnswer(texts.join(""))
    })

const hang: Fake.Turn = (_, options) =>
  Effect.andThen(
    options?.onPart === undefined
      ? Effect.void
      : options.onPart([Response.makePart("text-delta", { id: "1", delta: "Let me think about **that" })]),
    Effect.never
  )

const words = (text: string): ReadonlyArray<string> => text.match(/\S+\s*|\s+/g) ?? []

/** The model, and what it was asked. Pauses are in milliseconds. */
export const make = (pause: number): Fake.Fake => {
  const turn: Fake.Turn = (request, options) =>
    Effect.suspend(() => {
      const messages = fake.asked.at(-1)?.messages ?? []
      const last = messages.at(-1)
      const said = textOf(messages.findLast((message) => message.role === "user"))
      const answer = (next: Fake.Turn) => next(request, options)
      if (last?.role === "tool") return answer(say(words("Both slept well."), pause))
      if (said.includes("hang")) return answer(hang)
      if (said.includes("fail")) {
        return Effect.fail(Fake.failure(new AiError.InvalidRequestError({ description: "this cannot be answered" })))
      }
      if (said.includes("talk")) return answer(say(["Well, ", "yes."], 60_000))
      if (said.includes("slow")) return answer(Fake.calls(Fake.call("1", "nap", { name: "anna", millis: 60_000 })))
      if (said.includes("tools")) {
        return answer(
          Fake.calls(
            Fake.call("1", "nap", { name: "anna", millis: pause * 20 }),
            Fake.call("2", "nap", { name: "bert", millis: pause * 40 }),
            Fake.call("3", "nap", { name: "broken", millis: 0 })
          )
        )
      }
      if (said.includes("wipe")) return answer(Fake.calls(Fake.call("1", "wipe", {})))
      if (said.includes("ask later")) {
        return answer(
          Fake.calls(
            Fake.call("1", "nap", { name: "anna", millis: 1000 }),
            Fake.call("2", "clarify", { question: "Ready?", choices: ["yes"] })
          )
        )
      }
      if (said.includes("ask long")) {
        const question = Array.from({ length: 80 }, (_, index) => `line ${index + 1}`).join("\n")
        return answer(Fake.calls(Fake.call("1", "clarify", { question, choices: ["yes"] })))
      }
      if (said.includes("ask me")) {
        return answer(Fake.calls(Fake.call("1", "clarify", { question: "Which colour?", choices: ["red", "blue"] })))
      }
      if (said.includes("markdown")) return answer(say(answerText.flatMap(words), pause))
      return answer(say([`You said: ${said}`], pause))
    })
  const fake = Fake.make(turn)
  return fake
}

/** The services that a session needs. */
export const layer = (fake: Fake.Fake, hooks: ReadonlyArray<Hook<never>> = []) =>
  Agent.layer({ cwd: "/tmp", identity: "You are a test.", platform: "cli" }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        fake.router,
        SessionStore.layerMemory,
        ToolRegistry.layer([Toolset.make("test", toolkit, handlers), Clarify.toolset]),
        Hooks.layer(hooks)
      )
    )
  )
