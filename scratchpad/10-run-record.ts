import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { Agent, FileTools, RunRecord, Runtime } from "../src/index.ts"
import type { RecordEvent } from "../src/kit/entry/observability.ts"

// Every run is recorded whole, with secrets masked: messages, requests, answers, calls, times, usage, cost.
const line = ({ event }: RecordEvent.Entry): ReadonlyArray<string> => {
  switch (event._tag) {
    case "AttemptEnded":
      return [`${event.status}: ${event.usage?.outputTokens ?? 0} tokens`]
    case "CallEnded":
      return [`${event.name}: ${event.status}`]
    case "RunEnded":
      return [`${event.exit} after ${event.steps} steps`]
    default:
      return []
  }
}

const program = Effect.gen(function* () {
  const { sessionId } = yield* Agent.run({ prompt: "Read the file package.json" })
  const record = yield* RunRecord.RunRecord
  return yield* Stream.runCollect(record.read({ sessionId, kinds: ["AttemptEnded", "CallEnded", "RunEnded"] }))
})

const entries = await program.pipe(Effect.provide(Runtime.layer({ tools: [FileTools.toolset] })), Effect.runPromise)

console.log(entries.flatMap(line).join("\n"))
