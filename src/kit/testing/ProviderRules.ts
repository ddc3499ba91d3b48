/**
 * Rules for every provider: it prepares requests without sending them, returns complete and streamed answers, decodes
 * its own bodies, fails only with `AiError`, and ends when it is interrupted.
 *
 * **Details**
 *
 * The subject is a provider whose model answers any question with text. Providers of the same protocol whose model
 * calls a tool, fails or never answers are optional: a rule for a missing provider passes.
 *
 * **Example** (The rules of a provider)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Offline } from "hermes-effect"
 * import { Conformance, ProviderRules } from "hermes-effect/testing"
 *
 * const subject = Layer.effect(ProviderRules.Subject, Effect.map(Offline.make(), (answering) => ({ answering })))
 * const results = await Effect.runPromise(Conformance.runRules(ProviderRules.rules, subject))
 *
 * console.log(results.filter(({ broken }) => broken !== undefined))
 * // => []
 * ```
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import type { ModelCall, ModelResponse, StreamPart } from "../../base/domain/ModelCall.ts"
import type { Service } from "../../models/provider/Provider.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"

/** Providers of one protocol, named by the behavior of their models. */
export interface TestedProvider {
  readonly answering: Service
  /** Provider whose model calls the tool `lookup` with `{ "key": "a" }`. */
  readonly calling?: Service | undefined
  readonly failing?: Service | undefined
  /** Provider whose model never answers. */
  readonly silent?: Service | undefined
}

/** The subject of the rules for providers. */
export class Subject extends Context.Service<Subject, TestedProvider>()("hermes-effect/testing/ProviderSubject") {}

const makeUserMessage = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

const lookup = {
  name: "lookup",
  description: "Looks a key up",
  parameters: { type: "object", properties: { key: { type: "string" } }, required: ["key"] }
}

/** Creates a request with a system prompt, an earlier tool call and its result, and a tool. */
export const makeQuestion = (stream: boolean): ModelCall => ({
  messages: [
    Prompt.systemMessage({ content: "You are terse." }),
    makeUserMessage("Look up b."),
    Prompt.assistantMessage({
      content: [Prompt.toolCallPart({ id: "call_b", name: "lookup", params: { key: "b" }, providerExecuted: false })]
    }),
    Prompt.toolMessage({
      content: [
        Prompt.toolResultPart({ id: "call_b", name: "lookup", isFailure: false, result: "2", providerExecuted: false })
      ]
    }),
    makeUserMessage("Reply exactly hello")
  ],
  tools: [lookup],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  stream
})

/** Sends a question, and returns the answer with its streamed parts. */
const sendQuestion = Effect.fnUntraced(function* (provider: Service, stream: boolean) {
  const seen: Array<StreamPart> = []
  const onPart = (parts: ReadonlyArray<StreamPart>) => Effect.sync(() => (seen.push(...parts), parts))
  const request = yield* provider.prepare(makeQuestion(stream))
  const response = yield* provider.execute(request, stream ? { onPart } : undefined)
  return { request, response, seen }
})

const readText = ({ parts }: ModelResponse): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("")

const toPlainParts = ({ parts }: ModelResponse): ReadonlyArray<unknown> =>
  parts.flatMap((part): ReadonlyArray<unknown> =>
    part.type === "text"
      ? [["text", part.text]]
      : part.type === "tool-call"
        ? [["tool-call", part.id, part.name, part.params]]
        : []
  )

const listTokenCounts = ({ usage }: ModelResponse): ReadonlyArray<number | undefined> => [
  usage.inputTokens.total,
  usage.outputTokens.total
]

const all: ReadonlyArray<
  readonly [about: string, name: string, body: (tested: TestedProvider) => Effect.Effect<void, unknown>]
> = [
  [
    "requests",
    "are the same for the same question, and the question stays as it is",
    Effect.fnUntraced(function* ({ answering }) {
      const asking = makeQuestion(false)
      const before = JSON.stringify(asking)
      const first = yield* answering.prepare(asking)
      Check.equals(JSON.stringify(yield* answering.prepare(asking)), JSON.stringify(first))
      Check.equals(JSON.stringify(asking), before)
      Check.holds(Object.keys(first).length > 0, "a request should have members")
    })
  ],
  [
    "requests",
    "have the text and the tools of the question",
    Effect.fnUntraced(function* ({ answering }) {
      const text = JSON.stringify(yield* answering.prepare(makeQuestion(false)))
      for (const part of ["You are terse.", "Look up b.", "Reply exactly hello", "lookup"]) Check.includes(text, part)
    })
  ],
  [
    "answers",
    "in one piece have text, a reason for their end, and counts that are numbers",
    Effect.fnUntraced(function* ({ answering }) {
      const { response } = yield* sendQuestion(answering, false)
      Check.holds(readText(response) !== "", "an answer should have text")
      Check.equals(response.finishReason, "stop")
      for (const count of listTokenCounts(response))
        Check.holds(
          count === undefined || (Number.isInteger(count) && count >= 0),
          `${count} should be a number of tokens`
        )
    })
  ],
  [
    "answers",
    "in pieces say in their pieces what the whole says",
    Effect.fnUntraced(function* ({ answering }) {
      const { response, seen } = yield* sendQuestion(answering, true)
      Check.equals(seen.map((part) => (part.type === "text-delta" ? part.delta : "")).join(""), readText(response))
      Check.holds(readText(response) !== "", "an answer should have text")
      Check.equals(
        seen.map(({ type }) => type).filter((type) => type === "finish"),
        ["finish"],
        "finish comes once"
      )
      Check.equals(seen.at(-1)?.type, "finish", "finish comes last")
      const open = new Set<string>()
      for (const part of seen) {
        if (part.type === "text-start") open.add(part.id)
        if (part.type === "text-delta") Check.holds(open.has(part.id), "a piece belongs to a text that is open")
        if (part.type === "text-end") open.delete(part.id)
      }
      Check.equals(open.size, 0, "every text that begins ends")
    })
  ],
  [
    "answers",
    "that call a tool have its name, an id, and arguments that were read",
    Effect.fnUntraced(function* ({ calling }) {
      if (calling === undefined) return
      for (const stream of [false, true]) {
        const { response } = yield* sendQuestion(calling, stream)
        const [call, ...more] = response.parts.filter((part) => part.type === "tool-call")
        Check.equals([call?.name, call?.params, more.length], ["lookup", { key: "a" }, 0])
        Check.holds((call?.id ?? "") !== "", "a call should have an id")
        Check.equals(response.finishReason, "tool-calls")
      }
    })
  ],
  [
    "bodies",
    "of answers are read back as these answers",
    Effect.fnUntraced(function* ({ answering, calling }) {
      for (const provider of [answering, ...(calling === undefined ? [] : [calling])]) {
        for (const stream of [false, true]) {
          const { response } = yield* sendQuestion(provider, stream)
          const read = yield* provider.decode(response.raw)
          Check.equals(
            [toPlainParts(read), read.finishReason],
            [toPlainParts(response), response.finishReason],
            stream ? "streamed" : "whole"
          )
        }
      }
    })
  ],
  [
    "bodies",
    "that are none fail with AiError",
    Effect.fnUntraced(function* ({ answering }) {
      for (const body of [undefined, null, 7, "text", [], {}]) {
        const exit = yield* Effect.exit(answering.decode(body))
        const error = Exit.findErrorOption(exit)
        Check.holds(
          error._tag === "Some" && AiError.isAiError(error.value),
          `a body that is ${JSON.stringify(body)} should fail with AiError`
        )
      }
    })
  ],
  [
    "failures",
    "are AiError, streamed or not",
    Effect.fnUntraced(function* ({ failing }) {
      if (failing === undefined) return
      for (const stream of [false, true]) {
        const error = Exit.findErrorOption(yield* Effect.exit(sendQuestion(failing, stream)))
        Check.holds(error._tag === "Some" && AiError.isAiError(error.value), "a failure should be AiError")
      }
    })
  ],
  [
    "requests",
    "that are not answered end with their interruption",
    Effect.fnUntraced(function* ({ silent }) {
      if (silent === undefined) return
      for (const stream of [false, true]) {
        const exit = yield* Conformance.checkInterruptedEnd("a request", sendQuestion(silent, stream), "100 millis")
        Check.holds(
          Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause),
          "a model that is silent should not answer, and an interruption should stay one"
        )
      }
    })
  ]
]

/** The rules for providers. */
export const rules: ReadonlyArray<Conformance.Rule<Subject>> = all.map(([about, name, body]) =>
  Conformance.makeRule(about, name, Subject.use(body))
)
