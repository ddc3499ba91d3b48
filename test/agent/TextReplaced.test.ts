// An answer that middleware changes after it was shown: whoever follows the events, the result and the session have the
// same text.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as TestClock from "effect/testing/TestClock"
import { randomInt } from "node:crypto"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { ExecutionBlocked } from "../../src/base/domain/AgentError.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import { makeTextDelta, withParts } from "../../src/base/domain/ModelCall.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import { random } from "../middleware/scenario.ts"
import { expectedStream, generateStream, type Scenario } from "../middleware/streamScenario.ts"
import { isLong, scaleRuns } from "../support/effort.ts"
import * as Fake from "../support/fakeModel.ts"
import { entriesOf } from "../support/streamWrappers.ts"

const part = (text: string) => Response.makePart("text", { text })

/** The text on the screen of somebody who follows the events. */
const shownBy = (events: ReadonlyArray<RunEvent>): string => {
  const starts = new Map<number, number>()
  let shown = ""
  for (const event of events) {
    if (event._tag === "StepStarted") starts.set(event.step, shown.length)
    else if (event._tag === "TextDelta") shown += event.text
    else if (event._tag === "TextReplaced") shown = shown.slice(0, starts.get(event.stepId)) + event.text
  }
  return shown
}

const play = Effect.fnUntraced(function* (
  turn: Fake.Turn,
  {
    hooks = [],
    middleware = []
  }: { readonly middleware?: ReadonlyArray<Middleware.Contained>; readonly hooks?: ReadonlyArray<Hook> }
) {
  const events: Array<RunEvent> = []
  const layer = Agent.layer({ cwd: "/tmp", middleware }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(Fake.make(turn).router, SessionStore.layerMemory, ToolRegistry.layer([]), Hooks.layer(hooks))
    )
  )
  return yield* Effect.gen(function* () {
    const exit = yield* Effect.exit(
      Agent.run({
        prompt: "hi",
        sessionId: "s",
        streaming: true,
        onEvent: (more) => Effect.sync(() => void events.push(...more))
      })
    )
    const messages = yield* SessionStore.SessionStore.use((store) => store.messages(SessionId.make("s")))
    return {
      exit,
      events,
      shown: shownBy(events),
      result: Exit.isSuccess(exit) ? exit.value.text : undefined,
      stored: messages.filter(({ role }) => role === "assistant").map(Conversation.readText),
      replaced: events.filter(({ _tag }) => _tag === "TextReplaced")
    }
  }).pipe(Effect.provide(layer))
})

/** A model that streams these pieces alone. */
const streaming =
  (pieces: ReadonlyArray<string>): Fake.Turn =>
  (_, options) =>
    Effect.as(
      Effect.forEach(pieces, (piece) => options?.onPart?.([makeTextDelta("1", piece)]) ?? Effect.void),
      Fake.textAnswer(pieces.join(""))
    )

const answer = Fake.pieces("my ", "secret", " is here")

describe("an answer that is changed after it was shown", () => {
  it.effect(
    "by a wrapper of the attempt, of the whole call, or after the model: taken back, and the same everywhere",
    () =>
      Effect.gen(function* () {
        const given: ReadonlyArray<Middleware.Contained> = [
          Middleware.llmExecution({
            name: "a",
            wrap: (next) => (request) =>
              Effect.map(next(request), (response) => withParts(response, [part("[removed]")]))
          }),
          Middleware.wrapModelCall({
            name: "b",
            wrap: (next) => (params) =>
              Effect.map(next(params), (found) => ({
                ...found,
                response: withParts(found.response, [part("[removed]")])
              }))
          }),
          Middleware.lifecycle({
            name: "c",
            afterModel: () => Middleware.withModifications({ parsedResponse: { text: "[removed]", toolCalls: [] } })
          })
        ]
        for (const one of given) {
          const { replaced, result, shown, stored } = yield* play(answer, { middleware: [one] })
          assert.deepStrictEqual(
            { shown, result, stored },
            { shown: "[removed]", result: "[removed]", stored: ["[removed]"] },
            one.name
          )
          assert.deepStrictEqual(replaced, [{ _tag: "TextReplaced", stepId: 1, text: "[removed]" }], one.name)
        }
      })
  )

  it.effect("at the end of the run, by after_agent or a listener: those who follow see the final text once", () =>
    Effect.gen(function* () {
      for (const more of [
        {
          middleware: [
            Middleware.lifecycle({
              name: "end",
              afterAgent: () => Middleware.withModifications({ agentResponse: "[removed]" })
            })
          ]
        },
        { hooks: [Hooks.on("transform_llm_output", () => Effect.succeed("[removed]"))] }
      ]) {
        const { replaced, result, shown } = yield* play(answer, more)
        assert.deepStrictEqual({ shown, result }, { shown: "[removed]", result: "[removed]" })
        assert.lengthOf(replaced, 1)
      }
    })
  )

  it.effect("an answer that goes on where the shown one ended, or is the same, is not replaced", () =>
    Effect.gen(function* () {
      const longer = Middleware.llmExecution({
        name: "longer",
        wrap: (next) => (request) =>
          Effect.map(next(request), (response) => withParts(response, [part("my secret is here, and more")]))
      })
      const { replaced, shown } = yield* play(answer, { middleware: [longer] })
      assert.deepStrictEqual([shown, replaced], ["my secret is here, and more", []])
      assert.deepStrictEqual((yield* play(answer, {})).replaced, [])
    })
  )

  it.effect("a veto after it was shown takes all of it back, and nothing of it is stored", () =>
    Effect.gen(function* () {
      const blocked = () => Effect.fail(new ExecutionBlocked({ reason: "no", metadata: {} }))
      const vetoes = [
        Middleware.llmExecutionUndeclared({
          name: "a",
          wrap: (next) => (request) => Effect.flatMap(next(request), blocked)
        }),
        Middleware.wrapModelCallUndeclared({
          name: "b",
          wrap: (next) => (params) => Effect.flatMap(next(params), blocked)
        }),
        Middleware.lifecycle({ name: "c", afterModel: blocked }),
        Middleware.llmExecution({
          name: "d",
          onFailure: "closed",
          wrap: (next) => (request) => Effect.andThen(next(request), Effect.die("broken"))
        }),
        Middleware.llmExecution({
          name: "e",
          onFailure: "closed",
          wrap: (next) => (request) =>
            next(request, {
              onPart: (parts) =>
                parts.some((part) => part.type === "text-delta" && part.delta === "secret")
                  ? Effect.die("broken")
                  : Effect.succeed(parts)
            })
        })
      ]
      for (const veto of vetoes) {
        const { exit, replaced, shown, stored } = yield* play(answer, { middleware: [veto] })
        assert.isTrue(Exit.isFailure(exit), veto.name)
        assert.deepStrictEqual([shown, stored, replaced.length], ["", [], 1], veto.name)
      }
    })
  )

  it.effect("what was shown of an attempt that is made anew is taken back", () =>
    Effect.gen(function* () {
      let asked = 0
      const twice = Middleware.wrapModelCall({
        name: "twice",
        wrap: (next) => (params) => Effect.andThen(next(params), next(params))
      })
      const turn: Fake.Turn = (request, options) => Fake.pieces(asked++ === 0 ? "first" : "second")(request, options)
      const { result, shown, stored } = yield* play(turn, { middleware: [twice] })
      assert.deepStrictEqual([shown, result, stored], ["second", "second", ["second"]])
    })
  )

  it.effect(
    "an attempt that broke off is continued from the text that middleware let through, not from what the provider sent",
    () =>
      Effect.gen(function* () {
        let asked = 0
        const lost = Fake.failure(
          new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "", description: "lost" })
        )
        const turn: Fake.Turn = (request, options) =>
          asked++ === 0
            ? Effect.andThen(Fake.pieces("my ", "secret")(request, options), Effect.fail(lost))
            : Fake.pieces(" is here")(request, options)
        const redact = Middleware.wrapModelCall({
          name: "redact",
          wrap: (next) => (params) =>
            next(params, {
              onPart: (parts) =>
                Effect.succeed(
                  parts.map((part) =>
                    part.type === "text-delta"
                      ? makeTextDelta(part.id, part.delta.replace("secret", "[removed]"))
                      : part
                  )
                )
            })
        })
        const playing = yield* Effect.forkChild(play(turn, { middleware: [redact] }))
        while (playing.pollUnsafe() === undefined) {
          yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
          yield* TestClock.adjust("1 minute")
        }
        const { events, result, shown, stored } = yield* Fiber.join(playing)
        assert.deepStrictEqual(
          [shown, result, stored],
          ["my [removed] is here", "my [removed] is here", ["my [removed] is here"]],
          JSON.stringify(events)
        )
      })
  )

  it.effect(
    "by random stacks of wrappers: whoever follows, the result and the session have the same text, and a refused answer leaves none",
    () =>
      Effect.gen(function* () {
        const runs = Math.ceil(Number(process.env["HERMES_FUZZ_RUNS"] ?? scaleRuns(10_000)) / 50)
        const known = isLong ? Math.ceil((runs * 3) / 4) : runs
        const fresh = Number(process.env["HERMES_FUZZ_SEED"] ?? randomInt(1_000_000, 2 ** 31))
        for (const seed of Array.from({ length: runs }, (_, index) =>
          index < known ? index + 1 : fresh + index - known
        )) {
          const generated = { ...generateStream(random(seed)), streams: true }
          // Half of the stages stand around wrappers of attempts, which the generator does not give.
          const kind = seed % 2 === 0 ? "llm_execution" : generated.kind
          // A hang costs five minutes of this clock, and other tests have it.
          const wrappers = generated.wrappers.map((wrapper) => ({
            ...wrapper,
            does: wrapper.does === "hang" ? ("die" as const) : wrapper.does,
            after:
              wrapper.after === "hang"
                ? ("die" as const)
                : // The model of this test reads no bodies of plain wrappers.
                  wrapper.after === "change" && wrapper.form !== "typed" && kind === "llm_execution"
                  ? ("return" as const)
                  : wrapper.after
          }))
          const scenario: Scenario = {
            ...generated,
            pieces: ["p;", ...generated.pieces],
            base: "value",
            kind,
            wrappers
          }
          const why = `HERMES_FUZZ_SEED=${seed}: ${JSON.stringify(scenario)}`
          const { exit, result, shown, stored } = yield* play(streaming(scenario.pieces), {
            middleware: entriesOf(scenario)
          })
          const { outcome } = expectedStream(scenario)
          if (outcome._tag === "value") {
            // The model is asked again after an empty answer, and a wrapper that fails in each of them is set aside.
            if (outcome.value === "") continue
            assert.deepStrictEqual([result, shown, stored], [outcome.value, outcome.value, [outcome.value]], why)
          } else {
            assert.isTrue(Exit.isFailure(exit), why)
            assert.deepStrictEqual([shown, stored], ["", []], why)
          }
        }
      }).pipe(Effect.provide(Logger.layer([])))
  )
})
