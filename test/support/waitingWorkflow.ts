// One process of a workflow whose agents wait (`suspendedWorld.ts`): it gives answers, and works until the execution is
// over or waits. Its effects are lines of a file and of the output, and its end is the last line.
// Arguments: kind of the stores, their place, file of traces, seed, answers as JSON.
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { appendFileSync, writeSync } from "node:fs"
import { Steps, WorkflowRuns } from "../../src/kit/entry/workflow.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { makeAgentParts } from "./suspendedWorld.ts"

const [kind = "", place = "", traces = "", seed = "", given = ""] = process.argv.slice(2)

const trace = (line: string) =>
  Effect.andThen(
    Effect.sync(() => {
      appendFileSync(traces, `${line}\n`)
      writeSync(1, `${line}\n`)
    }),
    Effect.sleep(3)
  )

const errand = Steps.make("errand", {
  version: 1,
  input: Schema.String,
  output: Schema.String,
  steps: (start) =>
    start.pipe(
      Steps.agent("first", { prompt: "work" }),
      Steps.agent("second", { prompt: "task 9-9" }),
      Steps.result(({ first, second }) => `${first} ${second}`)
    )
})

const store =
  kind === "sqlite"
    ? SessionStore.layerSqlite({ path: `${place}/state.db` })
    : SessionStore.layerPostgres({ url: Redacted.make(`${place}s`), connections: 2 })
const agent = Runtime.layer({ ...makeAgentParts(Number(seed), trace, 1), store }).pipe(Layer.provideMerge(store))
const workflows = [errand]
const runs =
  kind === "sqlite"
    ? WorkflowRuns.layerSqlite({ path: `${place}/workflows.db`, workflows })
    : WorkflowRuns.layerPostgres({ url: Redacted.make(`${place}w`), workflows })

// The test writes the answers.
const answers = JSON.parse(given) as ReadonlyArray<{ readonly question: string; readonly answer: unknown }>

const program = Effect.gen(function* () {
  yield* WorkflowRuns.start(errand, { id: "one", input: "" })
  for (const one of answers) {
    const exit = yield* Effect.result(WorkflowRuns.answer({ id: "one", ...one }))
    // An earlier process may have been killed after it stored the answer.
    if (exit._tag === "Failure" && (exit.failure._tag !== "AnswerRefused" || exit.failure.reason === "invalid"))
      return `refused ${exit.failure.message}`
  }
  const answered = new Set(answers.map(({ question }) => question))
  let quiet = 0
  while (quiet < 15) {
    yield* Effect.sleep("30 millis")
    const { state, steps } = yield* WorkflowRuns.view("one")
    if (state !== "running") return `${state} ${yield* WorkflowRuns.wait(errand, "one")}`
    const open = yield* WorkflowRuns.listQuestions("one")
    const isWaiting =
      steps.some((step) => step.state === "waiting") &&
      steps.every((step) => step.state !== "running") &&
      open.some(({ question }) => !answered.has(question))
    quiet = isWaiting ? quiet + 1 : 0
  }
  const open = yield* WorkflowRuns.listQuestions("one")
  return `waiting ${JSON.stringify(open.map(({ prompt, question, schema }) => ({ prompt, question, schema })))}`
})

writeSync(1, "ready\n")
const end = program.pipe(
  Effect.catch((error) => Effect.succeed(`failed ${error.message}`)),
  Effect.provide(Layer.provide(runs, agent))
)
writeSync(1, `end ${await Effect.runPromise(end)}\n`)
process.exit(0)
