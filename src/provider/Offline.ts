/**
 * The model that is always there: in process, without network and key, the same answer for the same conversation.
 *
 * **Details**
 *
 * It follows plain instructions with the tools that it is offered: read, list and search files, run a command, write a
 * file, note a todo, hand a task to a subagent, reply with a given text or with what a tool gave. It looks at the
 * conversation alone, so that it can take over at any point of one. With a {@link Scenario.Scenario} it plays that instead.
 * It speaks chat completions: its requests and bodies are those of that protocol, so hooks and middleware see what they
 * always see.
 *
 * **Gotchas**
 *
 * It is no language model and says so: a question that takes one is answered with one honest sentence and the remedy.
 * Structured answers (`response_format`) are refused unless the text that it was told to reply with fits.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as AiError from "effect/ai/AiError"
import * as Json from "../domain/Json.ts"
import type { ExecuteOptions, ModelRequest, ModelResponse } from "../domain/Model.ts"
import * as Route from "../domain/Route.ts"
import * as Request from "./chat/Request.ts"
import * as Completion from "./offline/Completion.ts"
import * as Respond from "./offline/Respond.ts"
import * as Scenario from "./offline/Scenario.ts"
import { Provider } from "./Provider.ts"
import type * as ProviderPort from "./Provider.ts"
import * as Raw from "./Raw.ts"
import type * as SdkError from "./SdkError.ts"

/** What a user is told, once, on stderr. */
export const notice =
  "no model is configured: answers come from the built-in offline stand-in, which follows plain instructions (read, list, "
  + "search, run, write, reply exactly) and answers no open questions; run `hermes model`, or set model.provider and "
  + "model.default in config.yaml"

/** See the module. */
export interface Options {
  /** Answers to give in place of following instructions. */
  readonly scenario?: Scenario.Scenario | undefined
}

/** The route to it. */
export const route: Route.Route = { provider: "offline", model: "offline", apiMode: "chat_completions" }

const context = (method: string): SdkError.Context => ({
  module: "Offline",
  method,
  url: undefined,
  model: route.model
})

const wantsJson = (request: ModelRequest): boolean =>
  (Raw.string(Raw.fields(request["response_format"])["type"]) ?? "text") !== "text"

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

const identify = (request: ModelRequest): { readonly id: string; readonly model: string } => ({
  id: `chatcmpl-offline-${Raw.items(request["messages"]).length}`,
  model: Raw.string(request["model"]) ?? route.model
})

const noDelay = (): Effect.Effect<void> => Effect.void

const follow = Effect.fnUntraced(function*(
  request: ModelRequest,
  options: ExecuteOptions | undefined
): Effect.fn.Return<ModelResponse, AiError.AiError> {
  const answer = Respond.next(request)
  yield* checkFormat(request, answer)
  const response = yield* Completion.decode(Completion.body(request, answer, identify(request)), context("execute"))
  return options?.onPart === undefined || request["stream"] !== true
    ? response
    : yield* Completion.play(response, Completion.stream(response).map((part) => [part]), options.onPart, noDelay)
})

/** A provider of its own: a scenario begins at its first turn. */
export const make = (options?: Options): Effect.Effect<ProviderPort.Service> =>
  Effect.map(
    options?.scenario === undefined ? Effect.succeed(follow) : Scenario.player(options.scenario),
    (execute) => ({
      info: Route.info(route),
      apiMode: route.apiMode,
      prepare: (call) => Effect.sync(() => Request.prepare(call, route)),
      execute,
      decode: (raw) => Completion.decode(raw, context("decode"))
    })
  )

/** {@link make} as the run's `Provider`. */
export const layer = (options?: Options): Layer.Layer<Provider> => Layer.effect(Provider, make(options))
