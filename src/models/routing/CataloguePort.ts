/** The port of the model catalogue: the facts that it reports about a route. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type { Cost } from "../../base/domain/Cost.ts"
import type { Route } from "../../base/domain/Route.ts"
import type { Usage } from "../../base/domain/Usage.ts"
import type { Listed } from "./catalogue/ModelLists.ts"
import type { Abilities } from "./catalogue/ModelTables.ts"
import type { LearntWindows } from "./ContextWindow.ts"
import type { Pricing } from "./Pricing.ts"

/** Source of a window's size. */
export type WindowSource = "config" | "learnt" | "endpoint" | "openrouter" | "local" | "table" | "default"

/** Context window of a model. */
export interface Window {
  readonly tokens: number
  readonly source: WindowSource
}

/** The least that an agent can work with. */
const minimum = 64_000

/**
 * Refuses a window that is too small for an agent, unless the user named it, or a refusal did: then runs have worked
 * with it.
 */
export const requireWindow = (
  { model }: Pick<Route, "model">,
  { source, tokens }: Window
): Effect.Effect<void, ConfigError> =>
  source === "config" || source === "learnt" || tokens >= minimum
    ? Effect.void
    : Effect.fail(
        new ConfigError({
          path: "model.context_length",
          message:
            `${model} holds ${tokens} tokens, and an agent needs ${minimum}: choose another model,` +
            " or set model.context_length if it holds more or this is meant"
        })
      )

/** Facts about a model. */
export interface ModelFacts extends Abilities {
  readonly window: Window
  /** Maximum tokens of one answer; undefined if unknown. */
  readonly output: number | undefined
  readonly price: Pricing | undefined
  /** The model is in a list or a table. */
  readonly known: boolean
}

/** Parts of a route that facts depend on: its model and address. The key is for lists that are not public. */
export type RouteIdentity = Pick<Route, "provider" | "model" | "baseUrl" | "apiKey">

/** Facts that every call on a route needs. */
export interface CallFacts {
  readonly window: Window
  /**
   * Computes the cost of a call: the provider's own figure where that is an account of money; else its usage at the
   * known price.
   */
  readonly cost: (usage: Usage, reported?: number) => Cost
}

/** Facts about models, by route. */
export interface Service {
  /**
   * {@link CallFacts} of a route object, looked up again after a while. A call is held up by an endpoint of its user
   * for a second at most, and only while it is not known to say nothing; by a service of models for five.
   */
  readonly known: (route: RouteIdentity) => Effect.Effect<CallFacts>
  readonly window: (route: RouteIdentity) => Effect.Effect<Window>
  readonly facts: (route: RouteIdentity) => Effect.Effect<ModelFacts>
  readonly cost: (route: RouteIdentity, usage: Usage) => Effect.Effect<Cost>
  /** Notice for the user about an unknown model; returned once per model. */
  readonly notice: (route: RouteIdentity) => Effect.Effect<string | undefined>
  /** The models that a route's endpoint lists. */
  readonly listed: (route: Pick<Route, "provider" | "baseUrl" | "apiKey">) => Effect.Effect<ReadonlyArray<Listed>>
  /** Fields that requests on a route must carry so that its model has its full window: Ollama's `num_ctx`. */
  readonly extraBody: (route: RouteIdentity) => Effect.Effect<Route["extraBody"]>
  /** Windows learnt from refusals; {@link window} and {@link known} use them. */
  readonly probing: LearntWindows
}

/**
 * The catalogue of a runtime. `Catalogue.layerHome` creates it for a program.
 *
 * @see {@link Service} for its members.
 */
export class Catalogue extends Context.Service<Catalogue, Service>()("hermes-effect/routing/Catalogue") {}
