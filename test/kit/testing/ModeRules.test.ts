// The rules for guards in every mode: over redactors that keep them, and over one that forgets a mode.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as ModelCall from "../../../src/base/domain/ModelCall.ts"
import * as Conformance from "../../../src/kit/testing/Conformance.ts"
import * as ModeRules from "../../../src/kit/testing/ModeRules.ts"
import * as Middleware from "../../../src/middleware/Middleware.ts"
import * as Plain from "../../../src/middleware/Plain.ts"
import * as Runtime from "../../../src/program/Runtime.ts"

const mask = (part: ModelCall.StreamPart): ModelCall.StreamPart =>
  part.type === "text-delta" ? { ...part, delta: part.delta.replaceAll("SECRET", "[x]") } : part

const redactor = Middleware.llmExecution({
  name: "redactor",
  onFailure: "closed",
  wrap: (next) => (request) => next(request, { onPart: (parts) => Effect.succeed(parts.map(mask)) })
})

const subjectOf = (middleware: ReadonlyArray<Middleware.Contained>, more: Partial<ModeRules.TestedModes> = {}) =>
  Layer.succeed(ModeRules.Subject, {
    runtime: (parts) => Runtime.layer({ ...parts, middleware }),
    ...more
  } satisfies ModeRules.TestedModes)

const brokenRules = (subject: Layer.Layer<ModeRules.Subject>) =>
  Effect.map(Conformance.runRules(ModeRules.rules, subject), (results) =>
    results.flatMap(({ about, broken, name }) => (broken === undefined ? [] : [`${about}: ${name}: ${broken.message}`]))
  )

const plainRedactor = Plain.llmExecution({ name: "redactor", onFailure: "closed" }, (call) =>
  (call["next_call"] as (request: unknown, options: object) => unknown)(undefined, {
    on_part: (parts: ReadonlyArray<{ readonly type: string; readonly delta?: string }>) =>
      parts.map((part) =>
        part.type === "text_delta" ? { ...part, delta: part.delta?.replaceAll("SECRET", "[x]") } : part
      )
  })
)

/** A redactor that does its work unless a context says so. */
const forgetful = (isForgotten: (context: Middleware.LlmContext, request: ModelCall.TypedRequest) => boolean) =>
  Middleware.llmExecution({
    name: "forgetful",
    onFailure: "closed",
    wrap: (next, context) => (request) =>
      isForgotten(context, request)
        ? next(request)
        : next(request, { onPart: (parts) => Effect.succeed(parts.map(mask)) })
  })

const modesOf = (lines: ReadonlyArray<string>) =>
  Array.from(new Set(lines.map((line) => /^removes the text: (.*?): \1: the text is in (\w+)/.exec(line)?.[1] ?? line)))

describe("a closed redactor of eight lines", () => {
  it.live("keeps the rules in all modes", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* brokenRules(subjectOf([redactor])), [])
    })
  )

  it.live("keeps them as a plain function, too", () =>
    Effect.gen(function* () {
      // Plain middleware needs no services.
      const entry = plainRedactor as Middleware.Contained
      assert.deepStrictEqual(yield* brokenRules(subjectOf([entry])), [])
    })
  )
})

describe("a redactor that forgets a mode", () => {
  const wrong = [
    ["side tasks", forgetful(({ task }) => task === "example"), ["side task"]],
    [
      "the second attempt",
      forgetful(({ retryCount }) => retryCount > 0),
      [
        "retry, streamed",
        "retry, not streamed",
        "continuation of a broken stream",
        "fallback, streamed",
        "fallback, not streamed"
      ]
    ],
    ["an editor", forgetful(({ platform }) => platform === "acp"), ["acp"]],
    ["a batch", forgetful(({ platform }) => platform === "batch"), ["batch"]]
  ] as const
  for (const [what, entry, modes] of wrong)
    it.live(`is named with it: ${what}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(modesOf(yield* brokenRules(subjectOf([entry]))), [...modes])
      })
    )

  it.live("that guards streams alone fails in the modes that do not stream", () =>
    Effect.gen(function* () {
      const broken = modesOf(yield* brokenRules(subjectOf([forgetful((_, request) => request["stream"] !== true)])))
      assert.includeMembers(broken, ["chat, not streamed", "batch", "eval", "side task", "retry, not streamed"])
      assert.notInclude(broken, "chat, streamed")
    })
  )

  it.live("and middleware that asks twice breaks the other rule", () =>
    Effect.gen(function* () {
      const twice = Middleware.wrapModelCall({
        name: "twice",
        wrap: (next) => (params) => Effect.andThen(Effect.exit(next(params)), next(params))
      })
      const broken = yield* brokenRules(subjectOf([twice], { sinks: [] }))
      assert.isTrue(
        broken.some((line) => line.startsWith("runs nothing twice: chat, streamed")),
        broken.join("\n")
      )
    })
  )
})
