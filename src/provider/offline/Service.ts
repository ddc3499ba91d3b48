/**
 * The stand-in as a provider: prepares chat completions, and answers them by following instructions or by a scenario.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as AiError from "effect/ai/AiError"
import * as Json from "../../domain/Json.ts"
import type { ExecuteOptions, ModelRequest, ModelResponse } from "../../domain/Model.ts"
import * as Route from "../../domain/Route.ts"
import * as Request from "../chat/Request.ts"
import type * as ProviderPort from "../Provider.ts"
import type * as SdkError from "../SdkError.ts"
import * as Completion from "./Completion.ts"
import * as Respond from "./Respond.ts"
import type * as Scenario from "./Scenario.ts"

const context = (method: string): SdkError.Context => ({
  module: "Offline",
  method,
  url: undefined,
  model: "offline"
})

const wantsJson = (request: ModelRequest): boolean =>
  (Json.string(Json.fields(request["response_format"])["type"]) ?? "text") !== "text"

/** A structured answer can only be one that was dictated. */
const checkFormat = (request: ModelRequest, answer: Completion.Answer): Effect.Effect<void, AiError.AiError> =>
  answer.text === undefined || !wantsJson(request) || Option.isSome(Json.parse(answer.text))
    ? Effect.void
    : Effect.fail(AiError.make({
      module: "Offline",
      method: "execute",
      reason: new AiError.InvalidRequestError({
        parameter: "response_format",
        description: "the offline stand-in gives no structured answers: configure a model"
      })
    }))

const originOf = (request: ModelRequest): Completion.Origin => ({
  id: `chatcmpl-offline-${Json.items(request["messages"]).length}`,
  model: Json.string(request["model"]) ?? "offline"
})

const noDelay = (): Effect.Effect<void> => Effect.void

const follow = Effect.fnUntraced(function*(
  request: ModelRequest,
  options: ExecuteOptions | undefined
): Effect.fn.Return<ModelResponse, AiError.AiError> {
  const answer = Respond.next(request)
  yield* checkFormat(request, answer)
  const response = yield* Completion.decode(Completion.body(request, answer, originOf(request)), context("execute"))
  return options?.onPart === undefined || request["stream"] !== true
    ? response
    : yield* Completion.play(response, Completion.stream(response).map((part) => [part]), options.onPart, noDelay)
})

const play = (scenario: Scenario.Scenario): Effect.Effect<Scenario.Player> =>
  Effect.flatMap(Effect.promise(() => import("./Scenario.ts")), ({ player }) => player(scenario))

/** The stand-in as a provider. A scenario begins at its first turn. */
export const make = (
  route: Route.Route,
  scenario: Scenario.Scenario | undefined
): Effect.Effect<ProviderPort.Service> =>
  Effect.map(scenario === undefined ? Effect.succeed(follow) : play(scenario), (execute) => ({
    info: Route.info(route),
    apiMode: route.apiMode,
    prepare: (call) => Effect.sync(() => Request.prepare(call, route)),
    execute,
    decode: (raw) => Completion.decode(raw, context("decode"))
  }))
