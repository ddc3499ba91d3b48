// Runs of a scripted model with two tools through lifecycle middleware.
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type * as Middleware from "../../src/middleware/Middleware.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "./fakeModel.ts"

const Echo = Tool.dynamic("echo", {
  description: "Gives its arguments",
  parameters: Schema.Struct({}),
  success: Schema.Unknown
}).annotate(Tool.Readonly, true)
const Boom = Tool.make("boom", { description: "Throws", success: Schema.String }).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo, Boom)

/** Runs a conversation of a scripted model with these entries. */
export const play = (
  turns: ReadonlyArray<Fake.Turn>,
  middleware: ReadonlyArray<Middleware.Contained>,
  more: { readonly maxIterations?: number; readonly prompt?: string; readonly output?: unknown } = {}
) => {
  const fake = Fake.make(...turns)
  const reached: Array<unknown> = []
  const handlers = toolkit.toLayer({
    echo: (args) =>
      Effect.sync(() => {
        reached.push(args)
        return more.output ?? args
      }),
    boom: () => Effect.die(new Error("boom"))
  })
  const layer = Agent.layer({ cwd: "/tmp", middleware, maxIterations: more.maxIterations }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        fake.router,
        SessionStore.layerMemory,
        ToolRegistry.layer([Toolset.make("test", toolkit, handlers)])
      )
    )
  )
  const sessionId = "s-1"
  const program = Effect.gen(function* () {
    const exit = yield* Effect.exit(Agent.run({ prompt: more.prompt ?? "hello", sessionId }))
    const store = yield* SessionStore.SessionStore
    return { exit, stored: yield* store.messages(SessionId.make(sessionId)) }
  }).pipe(Effect.provide(layer))
  return { fake, reached, program, layer, sessionId }
}

export const texts = (messages: ReadonlyArray<Prompt.Message> | undefined): ReadonlyArray<string> =>
  (messages ?? []).slice(1).map(Conversation.readText)
export const results = (messages: ReadonlyArray<Prompt.Message> | undefined): ReadonlyArray<unknown> =>
  (messages ?? []).flatMap((message) =>
    message.role === "tool" ? message.content.flatMap((part) => (part.type === "tool-result" ? [part.result] : [])) : []
  )
export const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
export const textOf = (exit: Exit.Exit<{ readonly text: string }, unknown>): string =>
  Exit.isSuccess(exit) ? exit.value.text : String(exit)
