// Workflows from steps in memory: values, failures, parallel steps, loops, questions, agents and handoffs.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { Agent, Runtime, Scripted, SessionStore } from "../../../../src/index.ts"
import { Steps, WorkflowRuns } from "../../../../src/kit/entry/workflow.ts"

const Text = Schema.String

/** Runs one execution in memory. */
const runOnce = <Input, Output, E>(workflow: Steps.Workflow<Input, Output, E, never>, input: Input) =>
  Effect.andThen(WorkflowRuns.start(workflow, { id: "one", input }), WorkflowRuns.wait(workflow, "one")).pipe(
    Effect.provide(WorkflowRuns.layerMemory({ workflows: [workflow] }), { local: true })
  )

class Refused extends Schema.TaggedError<Refused>("test/Refused")("Refused", { attempt: Schema.Int }) {}

describe("a workflow from steps", () => {
  it.live("passes the value of each step by its name, and ends with the last value", () =>
    Effect.gen(function* () {
      const workflow = Steps.make("names", {
        version: 1,
        input: Schema.Struct({ from: Schema.Int }),
        output: Text,
        steps: (start) =>
          start.pipe(
            Steps.step("double", { output: Schema.Int, run: ({ input }) => Effect.succeed(input.from * 2) }),
            Steps.sleep("nap", "1 millis"),
            Steps.step("date", { output: Schema.Date, run: ({ double }) => Effect.succeed(new Date(double)) }),
            Steps.result(({ date, double, input }) => `${input.from} ${double} ${date.getTime()}`)
          )
      })
      assert.strictEqual(yield* runOnce(workflow, { from: 4 }), "4 8 8")
    })
  )

  it.live("runs branches and items at the same time, with their limit, and orders their values", () =>
    Effect.gen(function* () {
      let running = 0
      let most = 0
      const work = <A>(value: A) =>
        Effect.gen(function* () {
          most = Math.max(most, ++running)
          yield* Effect.sleep("10 millis")
          running--
          return value
        })
      const workflow = Steps.make("parallel", {
        version: 1,
        input: Schema.Array(Schema.Int),
        output: Schema.Struct({ sides: Schema.Struct({ left: Text, right: Schema.Int }), squares: Schema.Array(Text) }),
        steps: (start) =>
          start.pipe(
            Steps.all("sides", {
              left: (side) => side.pipe(Steps.step("l", { output: Text, run: () => work("left") })),
              right: (side) =>
                side.pipe(Steps.step("r", { output: Schema.Int, run: ({ input }) => work(input.length) }))
            }),
            Steps.forEach("squares", {
              items: ({ input }) => input,
              concurrency: 2,
              each: (one) =>
                one.pipe(
                  Steps.step("square", {
                    output: Text,
                    run: ({ index, item, sides }) => work(`${index}: ${item * item} ${sides.left}`)
                  })
                )
            }),
            Steps.result(({ sides, squares }) => ({ sides, squares }))
          )
      })
      const value = yield* runOnce(workflow, [3, 2, 1, 5])
      assert.deepStrictEqual(value, {
        sides: { left: "left", right: 4 },
        squares: ["0: 9 left", "1: 4 left", "2: 1 left", "3: 25 left"]
      })
      assert.strictEqual(most, 2)
    })
  )

  it.live("chooses between cases, and repeats a body until its condition holds or its limit is reached", () =>
    Effect.gen(function* () {
      const workflow = Steps.make("choices", {
        version: 1,
        input: Schema.Int,
        output: Text,
        steps: (start) =>
          start.pipe(
            Steps.loop("grow", {
              initial: ({ input }) => input,
              body: (round) =>
                round.pipe(
                  Steps.step("more", {
                    output: Schema.Int,
                    run: ({ current, round }) => Effect.succeed(current + round)
                  })
                ),
              until: (value) => value >= 10,
              limit: 4
            }),
            Steps.branch("size", {
              on: ({ grow }) => (grow > 12 ? "large" : "small"),
              cases: {
                large: (block) => block.pipe(Steps.step("big", { output: Text, run: () => Effect.succeed("big") })),
                small: (block) => block.pipe(Steps.result(({ grow }) => `small ${grow}`))
              }
            }),
            Steps.when("odd", {
              if: ({ grow }) => grow % 2 === 1,
              then: (block) => block.pipe(Steps.step("odd_text", { output: Text, run: () => Effect.succeed("odd") }))
            }),
            Steps.result(({ odd, size }) => `${size} ${odd ?? "even"}`)
          )
      })
      assert.strictEqual(yield* runOnce(workflow, 9), "small 10 even")
      assert.strictEqual(yield* runOnce(workflow, 5), "small 11 odd")
      const failure = yield* Effect.flip(runOnce(workflow, -10))
      assert.strictEqual(failure._tag, "StepLimitReached")
      assert.strictEqual(
        failure.message,
        "step grow has run 4 rounds without an end: raise its limit, or relax its condition"
      )
    })
  )

  it.live("repeats a failed step by its schedule, and ends with its typed failure or with a defect as StepFailed", () =>
    Effect.gen(function* () {
      const attempts: Array<number> = []
      const make = (until: number) =>
        Steps.make("retries", {
          version: 1,
          input: Schema.Null,
          output: Schema.Int,
          steps: (start) =>
            start.pipe(
              Steps.step("try", {
                output: Schema.Int,
                error: Refused,
                retry: Schedule.max([Schedule.spaced("1 millis"), Schedule.recurs(2)]),
                run: (_, { attempt }) =>
                  Effect.suspend(() => {
                    attempts.push(attempt)
                    return attempt < until ? Effect.fail(new Refused({ attempt })) : Effect.succeed(attempt)
                  })
              })
            )
        })
      assert.strictEqual(yield* runOnce(make(3), null), 3)
      const failure = yield* Effect.flip(runOnce(make(9), null))
      assert.deepStrictEqual(failure, new Refused({ attempt: 3 }))
      assert.deepStrictEqual(attempts, [1, 2, 3, 1, 2, 3])

      const broken = Steps.make("broken", {
        version: 1,
        input: Schema.Null,
        output: Text,
        steps: (start) =>
          start.pipe(
            Steps.step("thrown", {
              output: Text,
              run: () => {
                throw new TypeError("no such thing")
              }
            })
          )
      })
      const defect = yield* Effect.flip(runOnce(broken, null))
      assert.strictEqual(defect.message, "step thrown broke off: no such thing")
    })
  )

  it.live("shows its executions, and the states of their steps as a graph", () =>
    Effect.gen(function* () {
      const workflow = Steps.make("seen", {
        version: 3,
        input: Schema.Null,
        output: Text,
        steps: (start) =>
          start.pipe(
            Steps.when("maybe", {
              if: () => true,
              then: (block) => block.pipe(Steps.step("inner", { output: Text, run: () => Effect.succeed("x") }))
            }),
            Steps.question("approve", { prompt: "Go on?", answer: Schema.Boolean }),
            Steps.result(() => "over")
          )
      })
      yield* Effect.gen(function* () {
        yield* WorkflowRuns.start(workflow, { id: "seen", input: null })
        yield* WorkflowRuns.waitForQuestion("seen")
        const { state, steps, version } = yield* WorkflowRuns.view("seen")
        assert.deepStrictEqual([state, version], ["running", 3])
        assert.deepStrictEqual(
          steps.map((one) => `${one.path} ${one.kind} ${one.state} ${one.message ?? ""}`),
          ["maybe branch done yes", "maybe/inner step done ", "approve question waiting "]
        )
        const graph = WorkflowRuns.toMermaid(workflow, { steps })
        assert.include(graph, '  step_maybe{"branch: maybe"}')
        assert.include(graph, "  step_maybe -->|yes| step_inner")
        assert.include(graph, "  step_maybe -->|no| step_approve")
        assert.include(graph, "  class step_approve waiting")
        assert.isTrue(yield* WorkflowRuns.cancel("seen"))
        assert.isFalse(yield* WorkflowRuns.cancel("seen"))
        assert.strictEqual((yield* Effect.flip(WorkflowRuns.wait(workflow, "seen")))._tag, "ExecutionCancelled")
        const late = yield* Effect.flip(WorkflowRuns.answer({ id: "seen", question: "approve", answer: true }))
        assert.strictEqual(late._tag === "AnswerRefused" ? late.reason : late._tag, "late")
        assert.deepStrictEqual(
          (yield* WorkflowRuns.list()).map(({ id, state }) => [id, state]),
          [["seen", "cancelled"]]
        )
      }).pipe(Effect.provide(WorkflowRuns.layerMemory({ workflows: [workflow] })))
      assert.deepStrictEqual(Steps.describe(workflow), {
        name: "seen",
        version: 3,
        steps: [
          {
            name: "maybe",
            kind: "branch",
            branches: [
              { label: "yes", steps: [{ name: "inner", kind: "step", branches: [] }] },
              { label: "no", steps: [] }
            ]
          },
          { name: "approve", kind: "question", branches: [] }
        ]
      })
    })
  )

  it("with two steps of one name, or a malformed name, is refused in one line", () => {
    const define = (name: string, version = 1) =>
      Steps.make(name, {
        version,
        input: Schema.Null,
        output: Text,
        steps: (start) =>
          start.pipe(
            Steps.forEach("list", {
              items: () => [1],
              each: (one) => one.pipe(Steps.step("same", { output: Text, run: () => Effect.succeed("") }))
            }),
            Steps.step("same", { output: Text, run: () => Effect.succeed("") })
          )
      })
    assert.throws(
      () => define("twice"),
      'workflow twice: two steps have the name "same": give each step a name of its own'
    )
    assert.throws(
      () => define("two words"),
      /^workflow two words: the name of the workflow is "two words": use at most/
    )
    assert.throws(() => define("zero", 0), "workflow zero: version is 0: use a whole number from 1")
  })
})

describe("a question of a workflow", () => {
  const workflow = Steps.make("asks", {
    version: 1,
    input: Text,
    output: Text,
    steps: (start) =>
      start.pipe(
        Steps.question("age", {
          prompt: ({ input }) => `How old is ${input}?`,
          answer: Schema.Struct({ years: Schema.Int.check(Schema.isGreaterThan(0)) })
        }),
        Steps.result(({ age, input }) => `${input} is ${age.years}`)
      )
  })
  const refused = (answer: unknown, question = "age") =>
    Effect.map(Effect.flip(WorkflowRuns.answer({ id: "q", question, answer })), (error) =>
      error._tag === "AnswerRefused" ? error.reason : error._tag
    )

  it.live("takes one answer of its form; a wrong, second or late one is refused with the reason", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* refused(1), "unknown")
      yield* WorkflowRuns.start(workflow, { id: "q", input: "Ada" })
      const question = yield* WorkflowRuns.waitForQuestion("q")
      assert.strictEqual(question.prompt, "How old is Ada?")
      assert.strictEqual(yield* refused({ years: 36 }, "size"), "unknown")
      assert.strictEqual(yield* refused({ years: "old" }), "invalid")
      assert.strictEqual(yield* refused(undefined), "invalid")
      const answers = yield* Effect.all(
        [1, 2, 3].map((years) => Effect.result(WorkflowRuns.answer({ id: "q", question: "age", answer: { years } }))),
        { concurrency: 3 }
      )
      const taken = answers.findIndex((one) => one._tag === "Success")
      assert.strictEqual(answers.filter((one) => one._tag === "Success").length, 1)
      assert.strictEqual(yield* WorkflowRuns.wait(workflow, "q"), `Ada is ${taken + 1}`)
      assert.include(["late", "answered"], yield* refused({ years: 4 }))
      assert.deepStrictEqual(yield* WorkflowRuns.listQuestions(), [])
    }).pipe(Effect.provide(WorkflowRuns.layerMemory({ workflows: [workflow] })))
  )
})

describe("agents as steps", () => {
  const agentLayer = (answers: ReadonlyArray<string>) => {
    const store = SessionStore.layerMemory
    return Runtime.layer({ provider: Scripted.layer(answers.map((text) => Scripted.complete(text))), store }).pipe(
      Layer.provideMerge(store)
    )
  }
  const runWith = <Input, Output, E>(
    workflow: Steps.Workflow<Input, Output, E, Steps.AgentNeeds>,
    input: Input,
    answers: ReadonlyArray<string>
  ) =>
    Effect.gen(function* () {
      yield* WorkflowRuns.start(workflow, { id: "one", input })
      const value = yield* WorkflowRuns.wait(workflow, "one")
      const { steps } = yield* WorkflowRuns.view("one")
      const sessions = new Set(steps.flatMap(({ sessionId }) => sessionId ?? []))
      return { value, steps, sessions }
    }).pipe(
      Effect.provide(WorkflowRuns.layerMemory({ workflows: [workflow] }).pipe(Layer.provideMerge(agentLayer(answers))))
    )

  it.live("end in a typed value or a text, and may continue the session of an earlier step", () =>
    Effect.gen(function* () {
      const workflow = Steps.make("agents", {
        version: 1,
        input: Text,
        output: Schema.Struct({ city: Text, note: Text }),
        steps: (start) =>
          start.pipe(
            Steps.agent("weather", {
              prompt: ({ input }) => `How is the weather in ${input}?`,
              output: Schema.Struct({ city: Text, celsius: Schema.Int })
            }),
            Steps.agent("note", { prompt: ({ weather }) => `Why ${weather.celsius}?`, continues: "weather" }),
            Steps.result(({ note, weather }) => ({ city: weather.city, note }))
          )
      })
      const { sessions, value } = yield* runWith(workflow, "Oslo", ['{"city":"Oslo","celsius":4}', "It is winter."])
      assert.deepStrictEqual(value, { city: "Oslo", note: "It is winter." })
      assert.strictEqual(sessions.size, 1)
    })
  )

  it.live("hand a conversation to each other in one session", () =>
    Effect.gen(function* () {
      const workflow = Steps.make("desk", {
        version: 1,
        input: Text,
        output: Text,
        steps: (start) =>
          start.pipe(
            Steps.handoff("talk", {
              agents: {
                triage: { description: "sorts", instructions: "Sort.", handoffs: ["billing", "support"] },
                billing: { description: "money", instructions: "Bill." },
                support: { description: "help", instructions: "Help.", handoffs: ["billing"] }
              },
              first: "triage",
              prompt: ({ input }) => input
            }),
            Steps.result(({ talk }) => `${talk.agent}: ${talk.answer}`)
          )
      })
      const { sessions, steps, value } = yield* runWith(workflow, "My invoice is wrong", [
        '{"value":{"handoff":"support","reason":"a fault"}}',
        '{"value":{"handoff":"billing","reason":"an invoice"}}',
        '{"answer":"It is corrected."}'
      ])
      assert.strictEqual(value, "billing: It is corrected.")
      assert.deepStrictEqual(
        steps.map(({ path }) => path),
        ["talk/1-triage", "talk/2-support", "talk/3-billing"]
      )
      assert.strictEqual(sessions.size, 1)
    })
  )

  it.live("fail with StepFailed that names the step and the agent's error", () =>
    Effect.gen(function* () {
      const workflow = Steps.make("fails", {
        version: 1,
        input: Text,
        output: Schema.Int,
        steps: (start) => start.pipe(Steps.agent("count", { prompt: "Count", output: Schema.Int }))
      })
      const failure = yield* Effect.flip(runWith(workflow, "x", ["no", "no", "no"]))
      assert.deepStrictEqual(failure._tag === "StepFailed" ? [failure.step, failure.reason] : failure._tag, [
        "count",
        "InvalidOutput"
      ])
    })
  )
})

describe("workflows in workflows", () => {
  it.live("are executions under the id of their parent", () =>
    Effect.gen(function* () {
      const inner = Steps.make("inner", {
        version: 1,
        input: Schema.Int,
        output: Schema.Int,
        steps: (start) =>
          start.pipe(
            Steps.step("plus", {
              output: Schema.Int,
              error: Refused,
              run: ({ input }) =>
                input > 100 ? Effect.fail(new Refused({ attempt: input })) : Effect.succeed(input + 1)
            })
          )
      })
      const outer = Steps.make("outer", {
        version: 1,
        input: Schema.Int,
        output: Schema.Array(Schema.Int),
        steps: (start) =>
          start.pipe(
            Steps.forEach("each", {
              items: ({ input }) => [input, input * 2],
              each: (one) => one.pipe(Steps.child("sum", { workflow: inner, input: ({ item }) => item }))
            })
          )
      })
      assert.deepStrictEqual(yield* runOnce(outer, 4), [5, 9])
      assert.deepStrictEqual(yield* Effect.flip(runOnce(outer, 60)), new Refused({ attempt: 120 }))
    })
  )
})

/** Types of definitions; checked by the compiler. */
export const types = () => {
  Steps.make("types", {
    version: 1,
    input: Text,
    output: Text,
    steps: (begin) =>
      begin.pipe(
        Steps.step("a", { output: Text, run: () => Effect.succeed("x") }),
        // @ts-expect-error: the value is a text
        Steps.step("b", { output: Schema.Int, run: ({ a }) => Effect.succeed(a) }),
        // @ts-expect-error: no step has this name
        Steps.result(({ missing }) => missing)
      )
  })
  Steps.make("failures", {
    version: 1,
    input: Text,
    output: Text,
    steps: (begin) =>
      begin.pipe(
        // @ts-expect-error: a step without a schema of failures cannot fail
        Steps.step("c", { output: Text, run: () => Effect.fail(new Refused({ attempt: 1 })) })
      )
  })
  const agent = Steps.make("agent", {
    version: 1,
    input: Text,
    output: Text,
    steps: (begin) => begin.pipe(Steps.agent("talk", { prompt: "hello" }))
  })
  // The layer needs the services of the steps.
  const layer = WorkflowRuns.layerMemory({ workflows: [agent] })
  const needs: Layer.Layer<WorkflowRuns.WorkflowRuns, never, Steps.AgentNeeds> = layer
  // @ts-expect-error: an agent is needed
  const none: Layer.Layer<WorkflowRuns.WorkflowRuns> = layer
  return [needs, none, Agent.Agent]
}
