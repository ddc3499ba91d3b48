/** Interface of the model catalogue, and the facts that it provides about a route. */
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

/** Minimum window that an agent can work with, in tokens. */
const minimum = 64_000

/**
 * Fails if a window is too small for an agent. Windows that were configured, or learnt from a refusal, are accepted,
 * because runs have worked with them.
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
            " or set model.context_length if it holds more or this is intended"
        })
      )

/** Facts about a model. */
export interface ModelFacts extends Abilities {
  readonly window: Window
  /** Maximum number of tokens of one answer; `undefined` if unknown. */
  readonly output: number | undefined
  readonly price: Pricing | undefined
  /** True if a list or table contains the model. */
  readonly known: boolean
}

/**
 * Parts of a route that determine the facts: its provider, model and address. The key is used for lists that are not
 * public.
 */
export type RouteIdentity = Pick<Route, "provider" | "model" | "baseUrl" | "apiKey">

/** Facts that every call on a route needs. */
export interface CallFacts {
  readonly window: Window
  /**
   * Computes the cost of a call: the amount reported by the provider if it is in US dollars, otherwise the cost of the
   * usage at the known price.
   */
  readonly cost: (usage: Usage, reported?: number) => Cost
}

/** Provides facts about the models of routes. */
export interface Service {
  /**
   * Returns the {@link CallFacts} of a route object, which are looked up again after some time. A call waits at most
   * one second for a user's own endpoint, unless the endpoint is known not to answer, and at most five seconds for the
   * list of a model service.
   */
  readonly known: (route: RouteIdentity) => Effect.Effect<CallFacts>
  readonly window: (route: RouteIdentity) => Effect.Effect<Window>
  readonly facts: (route: RouteIdentity) => Effect.Effect<ModelFacts>
  readonly cost: (route: RouteIdentity, usage: Usage) => Effect.Effect<Cost>
  /** Returns a notice for the user about an unknown model, once per model. */
  readonly notice: (route: RouteIdentity) => Effect.Effect<string | undefined>
  /** Returns the models that a route's endpoint lists. */
  readonly listed: (route: Pick<Route, "provider" | "baseUrl" | "apiKey">) => Effect.Effect<ReadonlyArray<Listed>>
  /** Returns fields that requests on a route need so that the model uses its full window: Ollama's `num_ctx`. */
  readonly extraBody: (route: RouteIdentity) => Effect.Effect<Route["extraBody"]>
  /** Windows learnt from refusals; {@link window} and {@link known} use them. */
  readonly probing: LearntWindows
  /**
   * Creates a catalogue with the same sources that learns windows on its own, in memory, for the keys of a tenant. If
   * absent, windows that one tenant's refusals teach apply to others.
   */
  readonly separate?: (() => Service) | undefined
}

/**
 * Service that provides facts about the models of a runtime. `Catalogue.layerHome` creates it for a program.
 *
 * @see {@link Service} for its members.
 */
export class Catalogue extends Context.Service<Catalogue, Service>()("hermes-effect/routing/Catalogue") {}
