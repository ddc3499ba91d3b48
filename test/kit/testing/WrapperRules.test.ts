// The rules of wrappers: those that keep them, and for each rule one that breaks it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Response from "effect/ai/Response"
import { ExecutionBlocked } from "../../../src/base/domain/AgentError.ts"
import { toResponse } from "../../../src/base/domain/Usage.ts"
import type { ModelResponse, OnPart } from "../../../src/base/domain/ModelCall.ts"
import * as Middleware from "../../../src/middleware/Middleware.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as Conformance from "../../../src/kit/testing/Conformance.ts"
import * as WrapperRules from "../../../src/kit/testing/WrapperRules.ts"

type Entry = (faults: WrapperRules.Faults) => Middleware.Contained

const name = "mine"

const nameOf = ({ about, name }: { readonly about: string; readonly name: string }) => `${about}: ${name}`

const broken = (
  tested: Omit<WrapperRules.TestedWrapper, "name" | "runtime">,
  entry: Entry,
  rules = WrapperRules.rules
) =>
  Effect.map(
    Conformance.runRules(
      rules,
      Layer.succeed(WrapperRules.Subject, {
        ...tested,
        name,
        runtime: (parts, faults) => Runtime.layer({ ...parts, middleware: [entry(faults)] })
      })
    ),
    (results) => results.flatMap((result) => (result.broken === undefined ? [] : [nameOf(result)]))
  ).pipe(Effect.provide(Logger.layer([])))

const around = <A, E>({ after, before }: WrapperRules.Faults, next: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.andThen(
    before,
    Effect.flatMap(Effect.exit(next), (exit) => Effect.andThen(after, exit))
  )
const each =
  ({ part }: WrapperRules.Faults): OnPart =>
  (parts) =>
    Effect.as(part, parts)

const both = ["open", "closed"] as const
const model = { wraps: "model", policies: both, places: ["before", "after", "part"] } as const
const tool = { wraps: "tool", policies: both } as const

const onLlm: Entry = (faults) =>
  Middleware.llmExecution({
    name,
    onFailure: faults.onFailure,
    wrap: (next) => (request) => around(faults, next(request, { onPart: each(faults) }))
  })
const onModelCall: Entry = (faults) =>
  Middleware.wrapModelCall({
    name,
    onFailure: faults.onFailure,
    wrap: (next) => (params) => around(faults, next(params, { onPart: each(faults) }))
  })
const onTool: Entry = (faults) =>
  Middleware.toolExecution({ name, onFailure: faults.onFailure, wrap: (next) => (args) => around(faults, next(args)) })
const onToolCall: Entry = (faults) =>
  Middleware.wrapToolCall({ name, onFailure: faults.onFailure, wrap: (next) => (args) => around(faults, next(args)) })

/** Takes a word out of what streams by, and of the answer. */
const masking: Entry = (faults) =>
  Middleware.llmExecution({
    name,
    onFailure: faults.onFailure,
    wrap: (next) => (request) =>
      around(
        faults,
        next(request, {
          onPart: (parts) =>
            Effect.as(
              faults.part,
              parts.map((part) =>
                part.type === "text-delta" ? { ...part, delta: part.delta.replace("is", "**") } : part
              )
            )
        })
      )
  })

const blocked = () => new ExecutionBlocked({ reason: "the audit is away", metadata: {} })
const made: ModelResponse = {
  parts: [Response.makePart("text", { text: "made up" })],
  finishReason: "stop",
  usage: toResponse({ input: 1, output: 1 }),
  raw: undefined,
  model: undefined,
  id: undefined
}

/** Wrappers that break rules, each with one of them. */
const mutants: ReadonlyArray<
  readonly [does: string, tested: Omit<WrapperRules.TestedWrapper, "name" | "runtime">, entry: Entry, rule: string]
> = [
  [
    "never does its own work",
    model,
    () => Middleware.llmExecution({ name, wrap: (next) => (request) => next(request) }),
    "no fault: comes to its places, and is not reported to have failed"
  ],
  [
    "swallows failures for an answer of its own",
    { wraps: "tool" },
    (faults) =>
      Middleware.wrapToolCall({
        name,
        wrap: (next) => (args) =>
          Effect.catch(around(faults, next(args)), () =>
            Effect.succeed({ output: "fine", isFailure: false, message: undefined } as never)
          )
      }),
    "no fault: the failure of a call stays that failure"
  ],
  [
    "swallows failures of the model",
    { wraps: "model" },
    (faults) =>
      Middleware.llmExecution({
        name,
        wrap: (next) => (request) => Effect.catch(around(faults, next(request)), () => Effect.succeed(made))
      }),
    "no fault: a failure that may pass is retried"
  ],
  [
    "vetoes when its own work fails before",
    { wraps: "tool" },
    (faults) =>
      Middleware.toolExecution({
        name,
        wrap: (next) => (args) =>
          Effect.andThen(
            Effect.catchDefect(faults.before, () => Effect.fail(blocked())),
            Effect.onExit(next(args), () => faults.after)
          )
      }),
    "before next: fails open: the call goes on without it, with a warning"
  ],
  [
    "vetoes when its own work is interrupted",
    { wraps: "tool" },
    (faults) =>
      Middleware.toolExecution({
        name,
        wrap: (next) => (args) =>
          Effect.andThen(
            Effect.catchCause(faults.before, () => Effect.fail(blocked())),
            Effect.onExit(next(args), () => faults.after)
          )
      }),
    "before next: interrupts itself: that is its failure, and not the run's interruption"
  ],
  [
    "vetoes after a deadline of its own",
    { wraps: "tool" },
    (faults) =>
      Middleware.toolExecution({
        name,
        wrap: (next) => (args) =>
          Effect.andThen(
            Effect.catchTag(Effect.timeout(faults.before, "10 seconds"), "TimeoutError", () => Effect.fail(blocked())),
            Effect.onExit(next(args), () => faults.after)
          )
      }),
    "before next: hangs: its deadline ends it, and the call goes on without it"
  ],
  [
    "is always open",
    tool,
    (faults) => onTool({ ...faults, onFailure: "open" }),
    "before next: fails closed: the call fails with its name, and nothing below runs"
  ],
  [
    "asks again when its own work fails after",
    { wraps: "tool" },
    (faults) =>
      Middleware.wrapToolCall({
        name,
        wrap: (next) => (args) =>
          Effect.andThen(
            faults.before,
            Effect.flatMap(next(args), (output) =>
              Effect.catchDefect(Effect.as(faults.after, output), () => next(args))
            )
          )
      }),
    "after next succeeded: fails open: the value from below stands and nothing runs twice, with a warning"
  ],
  [
    "asks again when its own work is interrupted",
    { wraps: "tool" },
    (faults) =>
      Middleware.wrapToolCall({
        name,
        wrap: (next) => (args) =>
          Effect.andThen(
            faults.before,
            Effect.flatMap(next(args), (output) => Effect.catchCause(Effect.as(faults.after, output), () => next(args)))
          )
      }),
    "after next succeeded: interrupts itself: that is its failure, and not the run's interruption"
  ],
  [
    "vetoes after a deadline of its own, behind next",
    { wraps: "tool" },
    (faults) =>
      Middleware.wrapToolCall({
        name,
        wrap: (next) => (args) =>
          Effect.andThen(
            faults.before,
            Effect.flatMap(next(args), (output) =>
              Effect.as(
                Effect.catchTag(Effect.timeout(faults.after, "10 seconds"), "TimeoutError", () =>
                  Effect.fail(blocked())
                ),
                output
              )
            )
          )
      }),
    "after next succeeded: hangs: its deadline ends it, and the value from below stands"
  ],
  [
    "is open for what it does after next",
    tool,
    (faults) =>
      Middleware.toolExecution({
        name,
        onFailure: faults.onFailure,
        wrap: (next) => (args) =>
          Effect.andThen(
            faults.before,
            Effect.onExit(next(args), () => Effect.ignoreCause(faults.after))
          )
      }),
    "after next succeeded: fails closed: the call fails with its name"
  ],
  [
    "hides the failure from below behind its own",
    { wraps: "model" },
    (faults) =>
      Middleware.llmExecution({
        name,
        wrap: (next) => (request) =>
          Effect.andThen(
            faults.before,
            Effect.matchEffect(next(request), {
              onFailure: (error) =>
                Effect.andThen(
                  Effect.catchDefect(faults.after, () => Effect.fail(blocked())),
                  Effect.fail(error)
                ),
              onSuccess: (value) => Effect.as(faults.after, value)
            })
          )
      }),
    "after next failed: fails open: the failure from below stands"
  ],
  [
    "answers for a failure that may pass",
    { wraps: "model" },
    (faults) =>
      Middleware.llmExecution({
        name,
        wrap: (next) => (request) =>
          Effect.andThen(
            faults.before,
            Effect.matchEffect(next(request), {
              onFailure: (error) =>
                Effect.catchDefect(Effect.andThen(faults.after, Effect.fail(error)), () => Effect.succeed(made)),
              onSuccess: (value) => Effect.as(faults.after, value)
            })
          )
      }),
    "after next failed: fails open: a failure that may pass is retried all the same"
  ],
  [
    "is open once the call has failed",
    { ...model, places: ["before", "after"] },
    (faults) =>
      Middleware.llmExecution({
        name,
        onFailure: faults.onFailure,
        wrap: (next) => (request) =>
          Effect.andThen(
            faults.before,
            Effect.matchEffect(next(request), {
              onFailure: (error) => Effect.andThen(Effect.ignoreCause(faults.after), Effect.fail(error)),
              onSuccess: (value) => Effect.as(faults.after, value)
            })
          )
      }),
    "after next failed: fails closed: the call fails with its name where it came to that"
  ],
  [
    "drops what streams by when its own work fails",
    { ...model, policies: ["open"] },
    (faults) =>
      Middleware.llmExecution({
        name,
        wrap: (next) => (request) =>
          around(
            faults,
            next(request, {
              onPart: (parts) =>
                Effect.catchDefect(Effect.as(faults.part, parts), () =>
                  Effect.succeed(parts.filter(({ type }) => type !== "text-delta"))
                )
            })
          )
      }),
    "in onPart: fails open at once: the text that is shown is kept, or its end is said"
  ],
  [
    "drops the rest of what streams by",
    { ...model, policies: ["open"] },
    (faults) =>
      Middleware.llmExecution({
        name,
        wrap: (next) => (request) =>
          around(
            faults,
            next(request, {
              onPart: (parts) =>
                Effect.catchDefect(Effect.as(faults.part, parts), () =>
                  Effect.succeed(parts.filter(({ type }) => type !== "text-delta"))
                )
            })
          )
      }),
    "in onPart: fails open half-way: the text that is shown is kept, or its end is said"
  ],
  [
    "swallows what fails in its onPart",
    model,
    (faults) =>
      Middleware.llmExecution({
        name,
        onFailure: faults.onFailure,
        wrap: (next) => (request) =>
          around(faults, next(request, { onPart: (parts) => Effect.as(Effect.ignoreCause(faults.part), parts) }))
      }),
    "in onPart: fails closed: the call fails with its name, and nothing stays shown"
  ],
  [
    "does its own work beside the call",
    { wraps: "tool" },
    (faults) =>
      Middleware.toolExecution({
        name,
        wrap: (next) => (args) =>
          Effect.flatMap(Effect.forkChild(faults.before), () => Effect.onExit(next(args), () => faults.after))
      }),
    "interruption: of the run before next ends it: nothing else is asked"
  ],
  [
    "does its own work behind its end",
    { wraps: "tool" },
    (faults) =>
      Middleware.toolExecution({
        name,
        wrap: (next) => (args) =>
          Effect.andThen(
            faults.before,
            Effect.tap(next(args), () => Effect.forkDetach(faults.after))
          )
      }),
    "interruption: of the run after next ends it: nothing else is asked"
  ]
]

describe("rules of wrappers", () => {
  const kept: ReadonlyArray<readonly [string, Omit<WrapperRules.TestedWrapper, "name" | "runtime">, Entry]> = [
    ["llm_execution", model, onLlm],
    ["wrap_model_call", model, onModelCall],
    ["llm_execution that takes words out", { ...model, places: ["part"] }, masking],
    ["tool_execution", tool, onTool],
    ["wrap_tool_call", tool, onToolCall]
  ]
  for (const [kind, tested, entry] of kept) {
    it.live(`${kind} keeps them, whatever its own work does`, () =>
      Effect.map(broken(tested, entry), (found) =>
        assert.deepStrictEqual(
          found.filter((rule) => !(kind.includes("words") && rule.startsWith("no fault"))),
          []
        )
      )
    )
  }

  for (const [does, tested, entry, rule] of mutants) {
    it.live(`one that ${does} is told: ${rule.split(":")[0]}`, () =>
      Effect.map(
        broken(
          tested,
          entry,
          WrapperRules.rules.filter((one) => nameOf(one) === rule)
        ),
        (found) => assert.deepStrictEqual(found, [rule])
      )
    )
  }

  it("every rule has a wrapper that breaks it", () => {
    const named = new Set(mutants.map(([, , , rule]) => rule))
    assert.deepStrictEqual(
      WrapperRules.rules.map(nameOf).filter((rule) => !named.has(rule)),
      []
    )
  })
})
