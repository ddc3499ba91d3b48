// An agent that delegates, with a model that answers by what the last user message says.
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import * as Children from "../../src/agent/Children.ts"
import type { AgentSettings } from "../../src/agent/RunInput.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import type * as Middleware from "../../src/middleware/Middleware.ts"
import * as ModelRouter from "../../src/models/routing/ModelRouter.ts"
import { Provider, type Service } from "../../src/models/provider/Provider.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as FileState from "../../src/tools/builtin/file/FileState.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import type { ChildReport } from "../../src/tools/Delegator.ts"
import { ToolContext } from "../../src/tools/ToolContext.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "./fakeModel.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
/** Reads or writes a file, as far as the runtime knows. */
const Touch = Tool.make("touch", {
  description: "Reads or writes a file",
  parameters: Schema.Struct({ path: Schema.String, write: Schema.Boolean }),
  success: Schema.String,
  dependencies: [ToolContext]
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)
const files = Toolkit.make(Touch)

/** A model that answers by what the last user message says. */
export type Respond = (asked: {
  readonly prompt: string
  readonly tools: ReadonlyArray<string>
  readonly results: number
}) => ReturnType<Fake.Turn>

export const say = (text: string) => Effect.succeed(Fake.textAnswer(text))

export const setup = (
  respond: Respond,
  options: {
    readonly settings?: AgentSettings
    readonly hooks?: ReadonlyArray<Hook>
    readonly middleware?: ReadonlyArray<Middleware.ToolExecution>
  } = {}
) => {
  const ran: Array<string> = []
  const prompts: Array<string> = []
  const efforts: Array<string | undefined> = []
  const base = Fake.make(Fake.text("unused"))
  const provider = {
    ...base.provider,
    prepare: (call: Parameters<typeof base.provider.prepare>[0]) => {
      const user = call.messages.findLast((message) => message.role === "user") as Prompt.UserMessage
      const prompt = user.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")
      const results = call.messages.slice(call.messages.lastIndexOf(user)).filter(({ role }) => role === "tool").length
      efforts.push(call.reasoningEffort)
      return Effect.succeed({ prompt, results, tools: call.tools.map(({ name }) => name) })
    },
    execute: (request: Record<string, unknown>) => {
      prompts.push(String(request["prompt"]))
      return respond(request as never)
    }
  }
  const hooks: ReadonlyArray<Hook> = options.hooks ?? []
  const middleware: ReadonlyArray<Middleware.ToolExecution> = options.middleware ?? []
  const layer = Agent.layer({ cwd: "/tmp", ...options.settings, middleware }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        ModelRouter.layer.pipe(Layer.provide(Layer.succeed(Provider, provider as unknown as Service))),
        Hooks.layer(hooks),
        Layer.fresh(Children.layer),
        Layer.fresh(SessionStore.layerMemory),
        ToolRegistry.layer([
          Toolset.make(
            "test",
            toolkit,
            toolkit.toLayer({
              echo: ({ text }) =>
                Effect.sync(() => {
                  ran.push(text)
                  return text
                })
            })
          ),
          Toolset.make(
            "files",
            files,
            files.toLayer(
              Effect.map(FileState.FileState, (state) => ({
                touch: Effect.fnUntraced(function* ({
                  path,
                  write
                }: {
                  readonly path: string
                  readonly write: boolean
                }) {
                  const { sessionId } = yield* ToolContext
                  yield* write ? state.wrote(sessionId, path, "new") : state.saw(sessionId, path, "old")
                  return path
                })
              }))
            )
          ),
          Delegate.toolset
        ])
      )
    ),
    Layer.provideMerge(Layer.fresh(FileState.layer))
  )
  return { layer, ran, prompts, efforts }
}

export const delegate = (params: unknown) => Effect.succeed(Fake.callsAnswer(Fake.call("d1", "delegate_task", params)))

export const lastResult = Effect.fnUntraced(function* (sessionId: string) {
  const messages = yield* (yield* SessionStore.SessionStore).messages(sessionId as never)
  const results = messages.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) => (part.type === "tool-result" ? [String(part.result)] : []))
      : []
  )
  return JSON.parse(results.at(-1) ?? "null") as { results: ReadonlyArray<ChildReport>; error?: string; note?: string }
})

export const isChild = (prompt: string): boolean => prompt.includes("You work on your own")
