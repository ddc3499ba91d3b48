// One of several processes over the same Postgres database and session: `ask` starts a run that waits for an approval,
// and stays; `answer` approves and continues it; `watch` prints the events of all runs of the session until one ends
// with a text. The approved call is a line of a file.
// Arguments: role, address of the database, file of traces, id of the question (answer).
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { appendFileSync, writeSync } from "node:fs"
import { Agent, RunRecord, Runtime, SessionStore, Toolset } from "../../src/index.ts"
import { RunWatch } from "../../src/kit/entry/sessions.ts"
import * as Fake from "./fakeModel.ts"
import * as PlannedModel from "./plannedModel.ts"

const [role = "", url = "", traces = "", questionId = ""] = process.argv.slice(2)

const sessionId = "shared"
const say = (line: string) => Effect.sync(() => writeSync(1, `${line}\n`))

const toolkit = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String, needsApproval: true })
)
const tools = toolkit.toLayer({
  pay: () =>
    Effect.sync(() => {
      appendFileSync(traces, `pay ${process.pid}\n`)
      return "paid"
    })
})
const model = PlannedModel.make((_, step) =>
  step === 0 ? Fake.callsAnswer(Fake.call("c", "pay", {})) : Fake.textAnswer("It is paid.")
)
const store = SessionStore.layerPostgres({ url: Redacted.make(url), connections: 2 })
const agent = Runtime.layer({
  provider: model,
  store,
  tools: [Toolset.make("office", toolkit, tools)],
  questions: { unanswered: "suspend" }
}).pipe(Layer.provideMerge(store))

const ask = Effect.gen(function* () {
  const { exit, questions = [] } = yield* Agent.run({ sessionId, prompt: "pay the bill" })
  yield* say(`${exit} ${questions.map(({ id }) => id).join(" ")}`)
  return yield* Effect.never
})

const answer = Agent.resume({ sessionId, answers: [{ questionId, answer: { choice: "once" } }] }).pipe(
  Effect.matchEffect({
    onFailure: ({ _tag }) => say(`refused ${_tag}`),
    onSuccess: ({ exit, text }) => say(`${exit} ${text}`)
  })
)

/** Prints the events of the runs of the session that were not seen yet. Returns true after the end of the last one. */
const printRuns = Effect.fnUntraced(function* (seen: Set<string>) {
  const record = yield* RunRecord.RunRecord
  const begun = yield* Stream.runCollect(record.read({ sessionId, kinds: ["RunStarted"] }))
  let isOver = false
  for (const { turnId } of begun) {
    if (seen.has(turnId)) continue
    seen.add(turnId)
    yield* RunWatch.watchRun(sessionId, { turnId }).pipe(
      Stream.runForEach((event) => {
        isOver ||= event._tag === "RunFinished" && event.exit === "text_response"
        return say(`${seen.size} ${event._tag}${event._tag === "RunFinished" ? ` ${event.exit} ${event.text}` : ""}`)
      }),
      // The run of an answer that came second ends without a result.
      Effect.catchTag("RunLost", ({ reason }) => say(`${seen.size} RunLost ${reason}`))
    )
  }
  return isOver
})

const watch = Effect.gen(function* () {
  const seen = new Set<string>()
  yield* say("ready")
  while (!(yield* printRuns(seen))) yield* Effect.sleep("50 millis")
})

const roles: Readonly<Record<string, Effect.Effect<unknown, unknown, Layer.Success<typeof agent>>>> = {
  answer,
  ask,
  watch
}
await Effect.runPromise(Effect.provide(roles[role] ?? Effect.die(new Error(`no role "${role}"`)), agent))
process.exit(0)
