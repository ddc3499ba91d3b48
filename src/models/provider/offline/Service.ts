/**
 * The provider of the offline model. It prepares chat completions requests, and answers them by following instructions
 * or playing a scenario.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as AiError from "effect/ai/AiError"
import * as Json from "../../../base/domain/Json.ts"
import type { ExecuteOptions, ModelRequest, ModelResponse } from "../../../base/domain/ModelCall.ts"
import * as Route from "../../../base/domain/Route.ts"
import * as Request from "../chat/Request.ts"
import type * as ProviderPort from "../Provider.ts"
import type * as SdkError from "../SdkError.ts"
import * as Completion from "./Completion.ts"
import * as Respond from "./Respond.ts"
import type * as Scenario from "./Scenario.ts"

const makeErrorContext = (method: string): SdkError.Context => ({
  module: "Offline",
  method,
  url: undefined,
  model: "offline"
})

const wantsJson = (request: ModelRequest): boolean =>
  (Json.readString(Json.readFields(request["response_format"])["type"]) ?? "text") !== "text"

/** Fails if a structured answer is requested and the answer's text is not JSON. */
const checkFormat = (request: ModelRequest, answer: Completion.Answer): Effect.Effect<void, AiError.AiError> =>
  answer.text === undefined || !wantsJson(request) || Option.isSome(Json.parse(answer.text))
    ? Effect.void
    : Effect.fail(
        AiError.make({
          module: "Offline",
          method: "execute",
          reason: new AiError.InvalidRequestError({
            parameter: "response_format",
            description: "the offline stand-in gives no structured answers: configure a model"
          })
        })
      )

const makeOrigin = (request: ModelRequest): Completion.Origin => ({
  id: `chatcmpl-offline-${Json.readItems(request["messages"]).length}`,
  model: Json.readString(request["model"]) ?? "offline"
})

const noDelay = (): Effect.Effect<void> => Effect.void

const followInstructions = Effect.fnUntraced(function* (
  request: ModelRequest,
  options: ExecuteOptions | undefined
): Effect.fn.Return<ModelResponse, AiError.AiError> {
  const answer = Respond.answerRequest(request)
  yield* checkFormat(request, answer)
  const response = yield* Completion.decode(
    Completion.makeBody(request, answer, makeOrigin(request)),
    makeErrorContext("execute")
  )
  return options?.onPart === undefined || request["stream"] !== true
    ? response
    : yield* Completion.playBatches(
        response,
        Completion.streamResponse(response).map((part) => [part]),
        options.onPart,
        noDelay
      )
})

const playScenario = (scenario: Scenario.Scenario): Effect.Effect<Scenario.Player> =>
  Effect.flatMap(
    Effect.promise(() => import("./Scenario.ts")),
    ({ makePlayer }) => makePlayer(scenario)
  )

/** Creates the provider of the offline model. A scenario begins at its first turn. */
export const make = (
  route: Route.Route,
  scenario: Scenario.Scenario | undefined
): Effect.Effect<ProviderPort.Service> =>
  Effect.map(scenario === undefined ? Effect.succeed(followInstructions) : playScenario(scenario), (execute) => ({
    info: Route.toInfo(route),
    apiMode: route.apiMode,
    prepare: (call) => Effect.sync(() => Request.prepare(call, route)),
    execute,
    decode: (raw) => Completion.decode(raw, makeErrorContext("decode"))
  }))
