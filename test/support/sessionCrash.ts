// A process that dies between a tool call and its result. Argument: database.
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"

const id = SessionId.make("crashed")
const call = (id: string) =>
  Prompt.toolCallPart({ id, name: "terminal", params: { command: "ls" }, providerExecuted: false })

const program = Effect.gen(function* () {
  const store = yield* SessionStore.SessionStore
  yield* store.create({ id, source: "cli", provider: "test", model: "test", systemPrompt: "" })
  yield* store.append(id, [Prompt.userMessage({ content: [Prompt.textPart({ text: "list" })] })])
  yield* store.append(id, [Prompt.assistantMessage({ content: [call("c1"), call("c2"), call("c3")] })])
  yield* store.append(id, [
    Conversation.makeToolResult({ id: "c2", name: "terminal" }, { output: "b", isFailure: false })
  ])
  yield* Effect.sync(() => process.kill(process.pid, "SIGKILL"))
})

await Effect.runPromise(Effect.provide(program, SessionStore.layerSqlite({ path: process.argv[2] ?? "" })))
