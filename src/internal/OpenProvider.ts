/**
 * Opens the provider that a program talks to: the one of its route, a scenario, or a recording; each is loaded when it is
 * wanted. Used by `Runtime` alone.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type * as Scope from "effect/Scope"
import type { AiError } from "effect/ai/AiError"
import type { Environment } from "../config/Environment.ts"
import type { Values } from "../config/Settings.ts"
import { ConfigError } from "../domain/AgentError.ts"
import type { Route } from "../domain/Route.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as PrimaryRoute from "../routing/PrimaryRoute.ts"
import { offline } from "../routing/Routes.ts"

/** What answers in place of the route's model, and what is kept of the exchange. */
export interface Substitutes {
  /** File with a scenario that answers in place of a model. */
  readonly script?: string | undefined
  /** File with a recording that answers in place of a model. */
  readonly replay?: string | undefined
  /** The built-in stand-in answers, whatever is configured. */
  readonly withoutModel?: boolean | undefined
  /** File that the exchanges with the model are appended to. */
  readonly record?: string | undefined
}

type Opened<R = never> = Effect.Effect<Provider, AiError | ConfigError, R>

const ofRoute = (route: Route): Opened<Scope.Scope> => {
  if (route.provider === "offline") {
    return Effect.flatMap(Effect.promise(() => import("../provider/Offline.ts")), ({ make }) => make())
  }
  switch (route.apiMode) {
    case "chat_completions":
      return Effect.flatMap(Effect.promise(() => import("../provider/ChatCompletions.ts")), ({ make }) => make(route))
    case "anthropic_messages":
      return Effect.flatMap(Effect.promise(() => import("../provider/AnthropicMessages.ts")), ({ make }) => make(route))
    case "codex_responses":
      return Effect.flatMap(Effect.promise(() => import("../provider/CodexResponses.ts")), ({ make }) => make(route))
    case "bedrock_converse":
      return Effect.flatMap(Effect.promise(() => import("../provider/BedrockConverse.ts")), ({ make }) => make(route))
    case "language_model":
      return Effect.fail(
        new ConfigError({ path: "model.api_mode", message: "a LanguageModel is a value of an application: it can not be configured" })
      )
  }
}

const readText = (path: string): Effect.Effect<string, ConfigError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)).pipe(
    Effect.mapError((error) =>
      new ConfigError({
        path,
        message: error.reason._tag === "NotFound"
          ? `${path}: there is no such file`
          : `${path} can not be read: ${error.message}`
      })
    )
  )

const scenario = Effect.fnUntraced(function*(path: string) {
  const text = yield* readText(path)
  const [{ parse }, { make }] = yield* Effect.promise(() =>
    Promise.all([import("../provider/offline/Scenario.ts"), import("../provider/Offline.ts")])
  )
  const parsed = yield* Effect.mapError(parse(text), ({ message }) =>
    new ConfigError({ path, message: `${path}: ${message}` }))
  return yield* make({ scenario: parsed })
})

const recording = Effect.fnUntraced(function*(path: string) {
  const text = yield* readText(path)
  const { provider } = yield* Effect.promise(() => import("../provider/Replay.ts"))
  return yield* Effect.mapError(provider(text.split("\n")), ({ message }) =>
    new ConfigError({ path, message: `${path}: ${message}` }))
})

/** See the module. */
export const open = Effect.fnUntraced(function*(
  settings: Values,
  environment: Environment["Service"],
  { record, replay, script, withoutModel }: Substitutes
): Effect.fn.Return<Provider, AiError | ConfigError, FileSystem.FileSystem | Scope.Scope> {
  const provider = script !== undefined
    ? yield* scenario(script)
    : replay !== undefined
    ? yield* recording(replay)
    : yield* ofRoute(
      withoutModel === true ? offline : yield* Effect.fromResult(PrimaryRoute.resolve(settings, environment))
    )
  if (record === undefined) return provider
  const Replay = yield* Effect.promise(() => import("../provider/Replay.ts"))
  return Replay.record(provider, yield* Replay.toFile(record))
})
