/**
 * The agent's end of a script's tool calls: reads requests, has them run, counts them, and writes the answers.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Queue from "effect/Queue"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import type { PlatformError } from "effect/PlatformError"
import * as Prompt from "effect/ai/Prompt"
import * as Json from "../../../domain/Json.ts"
import type { ToolContext } from "../../ToolContext.ts"
import * as Framing from "../../mcp/Framing.ts"
import type { Run } from "./CodeSettings.ts"
import { callable } from "../internal/CodePreludes.ts"

const maxRequestBytes = 5 * 1024 * 1024
/** Answers that a script has not read yet; one that asks on and reads none has to wait. */
const maxUnread = 16

type Answer = { readonly result: unknown } | { readonly error: string }

/** Text of a failed call. */
const errorOf = (output: unknown): string => {
  const value = typeof output === "string" ? Option.getOrElse(Json.parse(output), () => output) : output
  return Predicate.hasProperty(value, "error") && typeof value.error === "string" ? value.error : Json.toText(value)
}

const resultOf = (output: unknown): unknown =>
  typeof output === "string" ? Option.getOrElse(Json.parse(output), () => output) : output

const requestOf = (line: Framing.Line): { readonly name: string; readonly args: object } | undefined => {
  const value = line._tag === "Line" ? Option.getOrUndefined(Json.parse(line.text)) : undefined
  return Predicate.hasProperty(value, "name") && typeof value.name === "string" && Predicate.hasProperty(value, "args") &&
      Predicate.isObject(value.args)
    ? { name: value.name, args: value.args }
    : undefined
}

/** The agent's end of a script's tool calls. */
export interface Bridge {
  /** Answers what comes in, until it ends. */
  readonly serve: (requests: Stream.Stream<Uint8Array, PlatformError>) => Effect.Effect<void, PlatformError, ToolContext>
  readonly answers: Stream.Stream<Uint8Array>
  /** Calls that were run. */
  readonly made: () => number
}

/** A bridge for one script. Without `run` there are no tools. */
export const make = Effect.fnUntraced(function*(run: Run | undefined, maxCalls: number): Effect.fn.Return<Bridge> {
  const answers = yield* Queue.bounded<Uint8Array, Cause.Done>(maxUnread)
  const prefix = yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)
  const encoder = new TextEncoder()
  let made = 0

  const answer = Effect.fnUntraced(function*(line: Framing.Line): Effect.fn.Return<Answer, never, ToolContext> {
    const request = requestOf(line)
    if (request === undefined) return { error: "this is no tool call: call the functions that the script was given" }
    const { args, name } = request
    if (!callable.includes(name)) return { error: `a script can not call ${name}: it has ${callable.join(", ")}` }
    if (name === "terminal" && Predicate.hasProperty(args, "background") && args.background === true) {
      return { error: "a script runs commands in the foreground only" }
    }
    if (made >= maxCalls) return { error: `the limit of ${maxCalls} tool calls is reached: print what you have and end` }
    if (run === undefined) return { error: "there are no tools in this run" }
    made++
    const call = Prompt.makePart("tool-call", { id: `code_${prefix.toString(36)}_${made}`, name, params: args, providerExecuted: false })
    const { isFailure, output } = yield* run(call)
    return isFailure ? { error: errorOf(output) } : { result: resultOf(output) }
  })

  const frame = Framing.make(maxRequestBytes)
  return {
    made: () => made,
    answers: Stream.fromQueue(answers),
    serve: (requests) =>
      Stream.runForEach(requests, (chunk) =>
        Effect.forEach(frame(chunk), (line) =>
          Effect.flatMap(answer(line), (value) => Queue.offer(answers, encoder.encode(`${JSON.stringify(value)}\n`))), {
          discard: true
        }))
  }
})
