/**
 * A model that is always available: it runs in process, needs no network and no key, and returns the same answer for
 * the same conversation.
 *
 * **Details**
 *
 * It follows simple instructions with the tools that it is offered: it reads, lists and searches files, runs a command,
 * writes a file, notes a todo, delegates a task to a subagent, and replies with given text or the result of a tool. It
 * reads only the conversation, so it can take over at any point. With a {@link Scenario.Scenario} it plays the scenario
 * instead. Its requests and bodies follow the chat completions protocol, so hooks and middleware see the usual data.
 *
 * Everything except the route and the notice is loaded on first use, so programs that use a real model do not load it.
 *
 * **Gotchas**
 *
 * It is not a language model. If a question requires one, the answer is a sentence that says so and explains the
 * remedy. Structured answers (`response_format`) are refused unless the requested reply text fits.
 *
 * **Example** (Without a key)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Offline, Runtime } from "hermes-effect"
 *
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(
 *   Effect.provide(Runtime.layer({ provider: Offline.layer() }))
 * )
 *
 * console.log((await Effect.runPromise(program)).text)
 * // => hello
 * ```
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Route from "../../base/domain/Route.ts"
import type * as Scenario from "./offline/Scenario.ts"
import { Provider } from "./Provider.ts"
import type * as ProviderPort from "./Provider.ts"

/** Notice that is printed to the user once, on stderr. */
export const notice =
  "no model is configured: answers come from the built-in offline stand-in, which follows plain instructions " +
  "(read, list, " +
  "search, run, write, reply exactly) and answers no open questions; run `hermes model`, or set model.provider and " +
  "model.default in config.yaml"

/** Options of the offline model. */
export interface Options {
  /** Scenario whose answers are returned. Without it, the model follows instructions. */
  readonly scenario?: Scenario.Scenario | undefined
}

/** The route to the offline model. */
export const route: Route.Route = { provider: "offline", model: "offline", apiMode: "chat_completions" }

/** Creates an independent provider whose scenario begins at its first turn. */
export const make = (options?: Options): Effect.Effect<ProviderPort.Service> =>
  Effect.flatMap(
    Effect.promise(() => import("./offline/Service.ts")),
    (service) => service.make(route, options?.scenario)
  )

/** Provides the result of {@link make} as the run's `Provider`. */
export const layer = (options?: Options): Layer.Layer<Provider> => Layer.effect(Provider, make(options))
