/**
 * A model that is always available: it runs in process, needs no network and no key, and returns the same answer for
 * the same conversation.
 *
 * **Details**
 *
 * It follows plain instructions with the tools that it is offered: read, list and search files, run a command, write a
 * file, note a todo, delegate a task to a subagent, reply with a given text or with the result of a tool. It reads only
 * the conversation, so it can take over at any point. With a {@link Scenario.Scenario} it plays the scenario instead.
 * Its requests and bodies follow the chat completions protocol, so hooks and middleware see the usual data.
 *
 * Everything except its name and notice is loaded on first use, at no cost to programs that have a model.
 *
 * **Gotchas**
 *
 * It is not a language model and says so: a question that requires one is answered with one sentence and the remedy.
 * Structured answers (`response_format`) are refused unless the requested reply text fits.
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

/** Notice to the user, once, on stderr. */
export const notice =
  "no model is configured: answers come from the built-in offline stand-in, which follows plain instructions " +
  "(read, list, " +
  "search, run, write, reply exactly) and answers no open questions; run `hermes model`, or set model.provider and " +
  "model.default in config.yaml"

/** Options of the stand-in. */
export interface Options {
  /** Answers to return instead of following instructions. */
  readonly scenario?: Scenario.Scenario | undefined
}

/** The route to it. */
export const route: Route.Route = { provider: "offline", model: "offline", apiMode: "chat_completions" }

/** A separate provider: a scenario begins at its first turn. */
export const make = (options?: Options): Effect.Effect<ProviderPort.Service> =>
  Effect.flatMap(
    Effect.promise(() => import("./offline/Service.ts")),
    (service) => service.make(route, options?.scenario)
  )

/** {@link make} as the run's `Provider`. */
export const layer = (options?: Options): Layer.Layer<Provider> => Layer.effect(Provider, make(options))
