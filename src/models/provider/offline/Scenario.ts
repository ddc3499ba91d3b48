/**
 * Plays predefined answers, for demonstrations, tests and exercises. A scenario is a YAML or JSON document with a list
 * of turns.
 *
 * **Details**
 *
 * Each turn is used once, in order. A turn with `match` is used only if the last user message contains that text
 * (ignoring case). A request is answered with the next unused turn that matches. With `loop: true` the turns start over
 * when all have been used.
 *
 * **Example** (A call, its answer, and a rate limit)
 *
 * ```yaml
 * turns:
 *   - tool_calls: [{ name: read_file, arguments: { path: a.txt } }]
 *   - text: It says hello.
 *     chunks: ["It says ", "hello."]
 *   - error: { status: 429, message: slow down, retry_after: 2 }
 * ```
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import * as AiError from "effect/ai/AiError"
import { ConfigError } from "../../../base/domain/AgentError.ts"
import * as Json from "../../../base/domain/Json.ts"
import type { ExecuteOptions, ModelRequest, ModelResponse } from "../../../base/domain/ModelCall.ts"
import * as SdkError from "../SdkError.ts"
import * as Completion from "./Completion.ts"
import * as ReceivedRequest from "./ReceivedRequest.ts"

const ToolCall = Schema.Struct({
  name: Schema.NonEmptyString,
  /** An object, or a string that is sent unchanged. */
  arguments: Schema.optional(Schema.Union([Schema.String, Schema.Record(Schema.String, Schema.Unknown)])),
  id: Schema.optional(Schema.NonEmptyString)
})

const Failure = Schema.Struct({
  status: Schema.Int,
  message: Schema.optional(Schema.String),
  /** Time after which the request may be retried, in seconds. */
  retry_after: Schema.optional(Schema.Finite)
})

const Usage = Schema.Struct({
  input_tokens: Schema.optional(Schema.Natural),
  output_tokens: Schema.optional(Schema.Natural),
  cache_read_tokens: Schema.optional(Schema.Natural),
  cache_write_tokens: Schema.optional(Schema.Natural),
  reasoning_tokens: Schema.optional(Schema.Natural)
})

/** The answer to one request. */
const Turn = Schema.Struct({
  match: Schema.optional(Schema.String),
  text: Schema.optional(Schema.String),
  reasoning: Schema.optional(Schema.String),
  tool_calls: Schema.optional(Schema.Array(ToolCall)),
  /** Failure returned instead of an answer. If the turn has `chunks`, they are streamed first. */
  error: Schema.optional(Failure),
  delay_ms: Schema.optional(Schema.Natural),
  /** The pieces in which the text is streamed. */
  chunks: Schema.optional(Schema.Array(Schema.String)),
  usage: Schema.optional(Usage),
  finish_reason: Schema.optional(Schema.String)
})
/** The answer to one request. */
type Turn = typeof Turn.Type

/** Schema of a scenario. */
export const Scenario = Schema.Struct({ turns: Schema.NonEmptyArray(Turn), loop: Schema.optional(Schema.Boolean) })
/** A scenario with its list of turns. */
export type Scenario = typeof Scenario.Type

const decode = Schema.decodeUnknownEffect(Scenario, { onExcessProperty: "error" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

const formatPath = (path: ReadonlyArray<unknown>): string =>
  path.map((key, index) => (typeof key === "number" ? `[${key}]` : `${index === 0 ? "" : "."}${String(key)}`)).join("")

const readPathKey = (segment: unknown): unknown =>
  typeof segment === "object" && segment !== null && "key" in segment ? segment.key : segment

const toConfigError = (issue: SchemaIssue.Issue): ConfigError => {
  const [first] = format(issue).issues
  const path = formatPath((first?.path ?? []).map(readPathKey))
  return new ConfigError({
    path,
    message: `the scenario does not fit at ${path === "" ? "its top" : path}: ${first?.message ?? "it is no scenario"}`
  })
}

const toOneLine = (error: unknown): string =>
  String(error instanceof Error ? error.message : error).split("\n")[0] ?? ""

const parseYaml = (text: string): Effect.Effect<unknown, ConfigError> =>
  Effect.flatMap(
    Effect.promise(() => import("yaml")),
    (Yaml) =>
      Effect.try({
        try: (): unknown => Yaml.parse(text, { logLevel: "error", merge: true, prettyErrors: false, version: "1.2" }),
        catch: (error) =>
          new ConfigError({ path: "", message: `the scenario is neither YAML nor JSON: ${toOneLine(error)}` })
      })
  )

/** Parses the YAML or JSON text of a scenario. */
export const parseScenario = (text: string): Effect.Effect<Scenario, ConfigError> =>
  Json.parse(text).pipe(
    Option.match({ onNone: () => parseYaml(text), onSome: Effect.succeed }),
    Effect.flatMap((value) => Effect.mapError(decode(value), (error) => toConfigError(error.issue)))
  )

const context: SdkError.Context = { module: "Offline", method: "execute", url: undefined, model: "offline" }

const refuseRequest = (description: string): AiError.AiError =>
  AiError.make({ module: "Offline", method: "execute", reason: new AiError.InvalidRequestError({ description }) })

/** Creates an error in the form that an SDK reports, so that it is classified like a real failure. */
const toProviderError = (error: typeof Failure.Type, clock: Clock.Clock): AiError.AiError =>
  SdkError.fromSdk({
    ...context,
    clock,
    error: {
      status: error.status,
      error: { message: error.message ?? `HTTP ${error.status}` },
      headers: new Map(error.retry_after === undefined ? [] : [["retry-after", String(error.retry_after)]])
    }
  })

const toCompletionAnswer = (turn: Turn, firstId: number): Completion.Answer => ({
  text: turn.text ?? turn.chunks?.join(""),
  reasoning: turn.reasoning,
  calls: turn.tool_calls?.map((call, index) => ({
    id: call.id ?? `${ReceivedRequest.idPrefix}${firstId + index}`,
    name: call.name,
    arguments: call.arguments ?? {}
  })),
  usage: {
    input: turn.usage?.input_tokens,
    output: turn.usage?.output_tokens,
    cacheRead: turn.usage?.cache_read_tokens,
    cacheWrite: turn.usage?.cache_write_tokens,
    reasoning: turn.usage?.reasoning_tokens
  },
  finishReason: turn.finish_reason
})

const isTurnMatch = (turn: Turn, said: string): boolean =>
  turn.match === undefined || said.toLowerCase().includes(turn.match.toLowerCase())

/** Creates a function that selects the next turn for a user message; see the module comment. */
const makeDeck = (scenario: Scenario): ((said: string) => { readonly turn: Turn; readonly index: number } | string) => {
  const used = new Set<number>()
  let asked = 0
  const takeTurn = (said: string) => {
    const index = scenario.turns.findIndex((turn, index) => !used.has(index) && isTurnMatch(turn, said))
    const turn = scenario.turns[index]
    if (turn === undefined) return undefined
    used.add(index)
    return { turn, index }
  }
  return (said) => {
    asked++
    const found = takeTurn(said)
    if (found !== undefined) return found
    if (scenario.loop === true) {
      used.clear()
      return takeTurn(said) ?? "no turn of the scenario matches what the user said"
    }
    return used.size === scenario.turns.length
      ? `the scenario is exhausted: it has ${used.size} turns and was asked for answer ${asked}; add turns or ` +
          "set loop: true"
      : "no turn of the scenario that is left matches what the user said"
  }
}

const splitIntoChunks =
  (chunks: ReadonlyArray<string> | undefined) =>
  (text: string): ReadonlyArray<string> =>
    chunks?.join("") === text ? chunks : Completion.splitIntoWords(text)

/** Answers a request with the next turn. */
export type Player = (request: ModelRequest, options?: ExecuteOptions) => Effect.Effect<ModelResponse, AiError.AiError>

/** Creates a player that begins at the first turn of a scenario. Requests are read only for `match`. */
export const makePlayer = (scenario: Scenario): Effect.Effect<Player> =>
  Effect.sync(() => {
    const next = makeDeck(scenario)
    return Effect.fnUntraced(function* (request, options) {
      const conversation = ReceivedRequest.readRequest(request)
      const found = next(conversation.exchanges.at(-1)?.text ?? "")
      if (typeof found === "string") return yield* refuseRequest(found)
      const { turn } = found
      if (turn.delay_ms !== undefined) yield* Effect.sleep(turn.delay_ms)
      const origin = { id: `chatcmpl-offline-turn-${found.index + 1}`, model: "offline" }
      const answer = toCompletionAnswer(turn, conversation.nextId)
      const response = yield* Completion.decode(Completion.makeBody(request, answer, origin), context)
      const onPart = request["stream"] === true ? options?.onPart : undefined
      const parts = Completion.streamResponse(response, splitIntoChunks(turn.chunks)).map((part) => [part])
      const sent = turn.error === undefined ? parts : turn.chunks === undefined ? [] : parts.slice(0, -2)
      const seen =
        onPart === undefined ? response : yield* Completion.playBatches(response, sent, onPart, () => Effect.void)
      return turn.error === undefined ? seen : yield* toProviderError(turn.error, yield* Clock.Clock)
    })
  })
