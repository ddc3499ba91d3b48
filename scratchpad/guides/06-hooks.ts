import * as Effect from "effect/Effect"
import { Agent, FileTools, Hooks, Runtime } from "../../src/index.ts"

// An observer. It cannot change the run: its failure or slowness is one warning.
const audit = Hooks.observer(
  { label: "audit", mode: "queued" },
  {
    post_tool_call: ({ status, tool_name }) => Effect.sync(() => console.log(`${tool_name}: ${status}`)),
    on_session_end: ({ completed }) => Effect.sync(() => console.log(`completed: ${completed}`))
  }
)

// A hook that may answer: the first block wins. `onFailure: "closed"` makes a failure of its own a refusal.
const guard = Hooks.on(
  "pre_tool_call",
  ({ args, tool_name }) =>
    Effect.succeed(
      tool_name === "read_file" && String(args["path"]).endsWith("package.json")
        ? ({ action: "block", message: "package.json is private" } as const)
        : undefined
    ),
  { onFailure: "closed" }
)

await Agent.run({ prompt: "Read the file package.json" }).pipe(
  Effect.provide(Runtime.layer({ tools: [FileTools.toolset], hooks: [audit, guard] })),
  Effect.runPromise
)
// => read_file: blocked
// => completed: true
