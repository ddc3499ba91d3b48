// Wrappers of random streams, as `streamScenario` describes them.
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import {
  type ExecuteOptions,
  hold,
  type ModelResponse,
  type OnPart,
  type StreamPart,
  makeTextDelta
} from "../../src/base/domain/ModelCall.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import type { NextCall } from "../../src/middleware/PlainExecution.ts"
import type { PartDictionary } from "../../src/middleware/PlainParts.ts"
import { type Scenario, type Stage, stepOf, type Wrapper } from "../middleware/streamScenario.ts"
import { textAnswer } from "./fakeModel.ts"

/** Failure of a wrapper of these. */
export class Failure extends Schema.TaggedError<Failure>("test/StreamFailure")("Failure", { id: Schema.String }) {}

const textOf = (response: ModelResponse): string =>
  response.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")

export const deltasOf = (parts: ReadonlyArray<StreamPart>): ReadonlyArray<string> =>
  parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : []))

/** How a wrapper's kind makes and reads its answers. */
export const answers = {
  llm_execution: {
    make: (text: string): unknown => ({ ...textAnswer(text), raw: { text } }),
    read: (answer: unknown): string => textOf(answer as ModelResponse)
  },
  wrap_model_call: {
    make: (text: string): unknown => ({
      response: textAnswer(text),
      route: { provider: "test", model: "test", apiMode: "chat_completions" },
      attempt: 0
    }),
    read: (answer: unknown): string => textOf((answer as { readonly response: ModelResponse }).response)
  }
}

export type Step = Effect.Effect<unknown, unknown, unknown>

const onPartOf = (wrapper: Wrapper): OnPart | undefined => {
  if (wrapper.does === "none") return undefined
  let calls = 0
  return (parts) =>
    Effect.suspend(() => {
      const texts = deltasOf(parts)
      const step = stepOf(wrapper, ++calls, texts)
      if (step._tag === "hold") return Effect.succeed(hold)
      if (step._tag === "broken") return step.how === "die" ? Effect.die(`broken${wrapper.id}`) : Effect.never
      return Effect.succeed(
        step.texts.join() === texts.join() ? parts : step.texts.map((text) => makeTextDelta("1", text))
      )
    })
}

const typed = (wrapper: Wrapper, kind: Scenario["kind"]): Middleware.Any => {
  const { after, closed, id } = wrapper
  const wrap =
    (next: (request: never, options?: ExecuteOptions) => Step) =>
    (request: never): Step => {
      const onPart = onPartOf(wrapper)
      return Effect.flatMap(next(request, onPart === undefined ? undefined : { onPart }), (answer): Step => {
        switch (after) {
          case "return":
            return Effect.succeed(answer)
          case "change":
            return Effect.succeed(answers[kind].make(`changed${id};`))
          case "nothing":
            return Effect.succeed(undefined)
          case "die":
            return Effect.die(`own${id}`)
          case "fail":
            return Effect.fail(new Failure({ id: `fail${id}` }))
          case "hang":
            return Effect.never
        }
      })
    }
  const options = { name: String(id), onFailure: closed ? ("closed" as const) : ("open" as const), wrap: wrap as never }
  return kind === "llm_execution"
    ? Middleware.llmExecutionUndeclared(options)
    : Middleware.wrapModelCallUndeclared(options)
}

const plain = (wrapper: Wrapper, kind: Scenario["kind"]): Middleware.Any => {
  const { after, closed, form, id } = wrapper
  const onPart = () => {
    let calls = 0
    return (parts: ReadonlyArray<PartDictionary>): unknown => {
      const texts = parts.flatMap((part) => (part.type === "text_delta" ? [String(part["delta"])] : []))
      const step = stepOf(wrapper, ++calls, texts)
      if (step._tag === "hold") return { action: "hold" }
      if (step._tag === "broken") {
        if (step.how === "hang") return new Promise(() => {})
        throw new Error(`broken${id}`)
      }
      if (step.texts.length === 0 && texts.length > 0) return undefined
      const given =
        step.texts.join() === texts.join() ? parts : step.texts.map((delta) => ({ type: "text_delta", id: "1", delta }))
      return form === "async" ? Promise.resolve(given) : given
    }
  }
  const registered = kind === "llm_execution" ? Plain.llmExecution : Plain.wrapModelCall
  return registered({ name: String(id), onFailure: closed ? "closed" : "open" }, async (call) => {
    const next = call["next_call"] as NextCall
    const given = kind === "llm_execution" ? call["request"] : call["params"]
    const body = await (wrapper.does === "none" ? next(given) : next(given, { on_part: onPart() }))
    switch (after) {
      case "return":
        return body
      case "change":
        return kind === "llm_execution" ? { text: `changed${id};` } : `changed${id};`
      case "nothing":
        return undefined
      case "die":
      case "fail":
        throw new Error(`own${id}`)
      case "hang":
        return await new Promise(() => {})
    }
  })
}

/** It counts the parts of one call: a run that got an empty answer makes another. */
const stageOf = (stage: Stage): Middleware.Any => {
  let calls = 0
  return Middleware.lifecycle({
    name: String(stage.id),
    onFailure: stage.closed ? "closed" : "open",
    beforeModel: () => {
      calls = 0
      return Middleware.noChanges
    },
    streamPart: ({ parts }) => {
      const texts = deltasOf(parts)
      const step = stepOf(stage, ++calls, texts)
      if (step._tag === "hold") return undefined
      if (step._tag === "broken") return step.how === "die" ? Effect.die(`broken${stage.id}`) : Effect.never
      return step.texts.join() === texts.join() && step.texts.length === texts.length
        ? Middleware.noChanges
        : Middleware.withModifications({ parts: step.texts.map((text) => makeTextDelta("1", text)) })
    }
  })
}

/** The middleware of a scenario, outermost first. */
export const entriesOf = ({ kind, stages, wrappers }: Scenario): ReadonlyArray<Middleware.Contained> =>
  // What they fail with is caught where they are run.
  [
    ...wrappers.map((wrapper) => (wrapper.form === "typed" ? typed(wrapper, kind) : plain(wrapper, kind))),
    ...stages.map(stageOf)
  ] as unknown as ReadonlyArray<Middleware.Contained>
