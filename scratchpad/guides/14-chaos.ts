import * as Effect from "effect/Effect"
import { Agent, Offline, RetryPolicy, Runtime } from "../../src/index.ts"
import { Chaos, ScriptedEnvironment, TestRun } from "../../src/kit/entry/testing.ts"

// The same seed gives the same faults: here a model that is overloaded every other time.
const faults = Chaos.make({ seed: 7, rates: { overloaded: 0.5 } })
const { onEvent, text } = TestRun.makeEventRecorder()
const { hooks, payloads } = TestRun.makeHookRecorder(["api_request_error"])

const runtime = Runtime.layer({
  provider: Chaos.layerProvider(Offline.layer(), faults),
  environment: ScriptedEnvironment.layer({
    files: { "/work/notes.txt": "hello" },
    commands: [{ line: /^git status/, out: "clean\n" }]
  }),
  hooks,
  retry: RetryPolicy.none
})

const run = Effect.isSuccess(Agent.run({ prompt: "Reply exactly hello", onEvent, streaming: true }))
const ended = await Effect.replicateEffect(run, 5).pipe(Effect.provide(runtime), Effect.runPromise)

console.log(ended, text())
// => [ true, true, true, false, false ] hellohellohello
console.log(payloads("api_request_error").length === faults.played.get("overloaded"))
// => true
