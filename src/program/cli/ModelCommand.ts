/**
 * `hermes model`: shows, lists, selects and tests models, and shows what was learnt about them.
 *
 * On a terminal it guides the user through the set-up of another model (`ModelSetup`). `login` and `logout` manage the
 * tokens of a ChatGPT subscription, which replace an API key. Nothing is written before the login succeeds.
 *
 * Source: `hermes-llm.md` §2, §10.1, §12.3, §16, §17.2.
 */
import * as BigDecimal from "effect/BigDecimal"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Config from "../../base/config/Config.ts"
import * as Edit from "../../base/config/Edit.ts"
import { Environment } from "../../base/config/Environment.ts"
import * as InheritedLimits from "../../base/config/InheritedLimits.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import type { Route } from "../../base/domain/Route.ts"
import * as Offline from "../../models/provider/Offline.ts"
import { Catalogue, layerHome, type ModelFacts } from "../../models/routing/Catalogue.ts"
import type { Invitation } from "../../models/routing/CodexLogin.ts"
import * as Directory from "../../models/routing/ProviderDirectory.ts"
import { noKey } from "../../models/routing/RouteKeys.ts"
import * as TokenStore from "../../models/routing/TokenStore.ts"
import * as CommandSettings from "./CommandSettings.ts"
import * as ConfiguredModels from "./ConfiguredModels.ts"
import * as ModelProfile from "./ModelProfile.ts"
import * as ModelSetup from "./ModelSetup.ts"
import { InterruptCode, makeWorkFailure, makeSilentFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { printLine, printNote, Output } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const json = Flags.makeSwitch("json", "Print JSON")

interface AsJson {
  readonly json: boolean
}

/** Creates the layer with the model data, and with the settings overridden by the flags. */
const makeSurroundings = (flags: Flags.Globals) =>
  layerHome.pipe(Layer.provideMerge(Config.layerAll(Flags.toConfigOptions(flags))))

const withModels = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (flags) => Effect.provide(work, makeSurroundings(flags)))

const describeKey = ({ apiKey, apiMode }: Route): string =>
  apiKey === undefined
    ? apiMode === "bedrock_converse"
      ? "credentials of the AWS SDK"
      : "none"
    : Redacted.value(apiKey) === Redacted.value(noKey)
      ? "none"
      : "set"

const listAbilities = (facts: ModelFacts): ReadonlyArray<string> =>
  (["tools", "vision", "reasoning", "caching"] as const).filter((name) => facts[name] === true)

const formatPrices = ({ price }: ModelFacts): Readonly<Record<string, string>> | null => {
  if (price === undefined) return null
  const named = { input: price.input, output: price.output, cache_read: price.cacheRead, cache_write: price.cacheWrite }
  return Object.fromEntries(
    Object.entries(named).flatMap(([name, rate]) => (rate === undefined ? [] : [[name, BigDecimal.format(rate)]]))
  )
}

const fallbackNames: Effect.Effect<ReadonlyArray<string>, never, Settings> = Effect.map(
  Settings,
  ({ fallbackModel, fallbackProviders }) =>
    [
      ...fallbackProviders,
      ...(fallbackProviders.length === 0 && fallbackModel !== undefined ? [fallbackModel] : [])
    ].map(({ model, provider }) => `${model} of ${provider}`)
)

/** Shows the model in use and its known properties. */
const showModel = ({ json }: AsJson) =>
  ConfiguredModels.withRoute(
    "look",
    Effect.fnUntraced(function* (route) {
      const catalogue = yield* Catalogue
      const facts = yield* catalogue.facts(route)
      const fallbacks = yield* fallbackNames
      const { apiMode, baseUrl, model, provider } = route
      if (json) {
        return yield* printLine(
          SafeText.toJson(
            {
              provider,
              model,
              api_mode: apiMode,
              base_url: baseUrl ?? null,
              key: describeKey(route),
              context_length: facts.window.tokens,
              context_length_source: facts.window.source,
              max_output_tokens: facts.output ?? null,
              abilities: listAbilities(facts),
              usd_per_million_tokens: formatPrices(facts),
              fallbacks
            },
            2
          )
        )
      }
      const rates = formatPrices(facts)
      const rows: ReadonlyArray<readonly [string, string]> = [
        ["model", model],
        [
          "provider",
          provider === "offline" ? "offline (built-in; set model.provider and model.default to use a model)" : provider
        ],
        ["protocol", baseUrl === undefined ? apiMode : `${apiMode} at ${baseUrl}`],
        ["key", describeKey(route)],
        ["window", `${facts.window.tokens} tokens (${facts.window.source})`],
        ["answer", facts.output === undefined ? "unknown" : `up to ${facts.output} tokens`],
        ["able to", facts.known ? listAbilities(facts).join(", ") : "unknown"],
        [
          "price",
          rates === null
            ? "unknown"
            : `${Object.entries(rates)
                .map(([name, rate]) => `${name} $${rate}`)
                .join(", ")} for a million tokens`
        ],
        ["fallbacks", fallbacks.length === 0 ? "none" : fallbacks.join(", ")]
      ]
      yield* printLine(rows.map(([name, text]) => `${name.padEnd(9)}  ${text}`).join("\n"))
    })
  ).pipe(withModels)

/** Lists the models that the provider serves. */
const list = Command.make(
  "list",
  {
    json,
    search: Flag.String("search").pipe(
      Flag.withMetavar("TEXT"),
      Flag.withDescription("Only models whose name contains this text"),
      Flag.withDefault("")
    )
  },
  ({ json, search }) =>
    ConfiguredModels.withRoute(
      "renew",
      Effect.fnUntraced(function* (route) {
        if (route.provider === "offline") {
          const names = Directory.entries.map(({ name }) => name).join(", ")
          return yield* makeUsageFailure(`no provider is configured: pass --provider with one of ${names}`)
        }
        const models = yield* Catalogue.use((catalogue) => catalogue.listed(route))
        const found = models.filter(({ id }) => id.toLowerCase().includes(search.toLowerCase()))
        if (json) return yield* printLine(SafeText.toJson(found, 2))
        if (models.length === 0) {
          return yield* makeWorkFailure(
            `${route.provider} does not list its models: see its documentation, then \`hermes model set\``
          )
        }
        if (found.length === 0) return yield* printNote(`No match for "${search}" in ${models.length} models`)
        const width = Math.max(...found.map(({ id }) => id.length))
        yield* printLine(
          found
            .map(({ id, window }) => (window === undefined ? id : `${id.padEnd(width)}  ${window} tokens`))
            .join("\n")
        )
      }),
      ConfiguredModels.withAnyModel
    ).pipe(withModels)
).pipe(Command.withDescription("List the models of the provider, or of another one with --provider"))

/** Makes a model the main model, if the settings can express it. */
const set = Command.make(
  "set",
  { model: Argument.String("model").pipe(Argument.withDescription("Model name as the provider lists it")) },
  Effect.fn("hermes model set")(function* ({ model }) {
    const flags = yield* hermes
    const { apiMode, baseUrl, provider } = flags
    yield* ConfiguredModels.withRoute(
      "look",
      Effect.fnUntraced(function* (route) {
        const removed = yield* Edit.setModel({ default: model, provider, base_url: baseUrl, api_mode: apiMode })
        yield* printLine(
          `${route.model} of ${route.provider} is now the main model; test it with \`hermes model test\``
        )
        if (removed.length > 0)
          yield* printLine(
            `Removed from config.yaml, because it belonged to the old provider or address: ${removed.join(", ")}`
          )
      })
    ).pipe(Effect.provide(makeSurroundings({ ...flags, model })))
  })
).pipe(Command.withDescription("Set the main model; its provider and address with --provider and --base-url"))

/** Tests the model by requesting the shortest possible answer. */
const test = Command.make("test", { json }, ({ json }) =>
  ConfiguredModels.withRoute(
    "renew",
    Effect.fnUntraced(function* (route, models) {
      const { millis, model, tokens } = yield* ConfiguredModels.probeRoute(route, models)
      if (json) {
        return yield* printLine(
          SafeText.toJson({
            provider: route.provider,
            model: route.model,
            answered_as: model ?? null,
            millis,
            output_tokens: tokens
          })
        )
      }
      const as = model === undefined || model === route.model ? "" : ` as ${model}`
      yield* printLine(
        `${route.model} of ${route.provider} answers${as}: ${millis} ms, ${tokens} ${tokens === 1 ? "token" : "tokens"}`
      )
    })
  ).pipe(withModels)
).pipe(Command.withDescription("Send a short test request to the model"))

const loadLogins = Effect.promise(() => import("../../models/routing/Logins.ts"))

const refuseOthers = Effect.flatMap(hermes, ({ provider }) =>
  provider === undefined || Directory.findProvider(provider)?.login === true
    ? Effect.void
    : makeUsageFailure(
        `${provider} uses a key, not a login: set it as \`hermes doctor\` says; there is a login for ` +
          `${TokenStore.codex}`
      )
)

/** Prints every minute that the command is still waiting. */
const patience = Effect.flatMap(Schedule.CurrentMetadata, ({ attempt }) => {
  const left = 15 - attempt
  return printNote(`Waiting for the code, ${left} more ${left === 1 ? "minute" : "minutes"}`)
}).pipe(Effect.schedule(Schedule.upTo(Schedule.spaced("1 minute"), { times: 14 })), Effect.andThen(Effect.never))

const formatInvitation = ({ code, page }: Invitation): string =>
  `Open ${page} and type the code ${code}\nWaiting for up to 15 minutes. Press Ctrl+C to stop without changes.\n`

const login = Command.make(
  "login",
  {},
  Effect.fn("hermes model login")(function* () {
    yield* refuseOthers
    const settings = yield* Settings
    const { login } = yield* (yield* loadLogins).makeCodexLogin(settings)
    const { err } = yield* Output
    yield* login((invited) => err(formatInvitation(invited))).pipe(
      Effect.catchTag("LoginError", ({ message }) => makeWorkFailure(message)),
      Effect.raceFirst(patience)
    )
    const isChosen = Directory.findProvider(settings.model.provider)?.name === TokenStore.codex
    yield* printLine(
      "You are logged in to " +
        `ChatGPT${isChosen ? "" : `; \`hermes model set NAME --provider ${TokenStore.codex}\` chooses a model of it`}`
    )
  }, CommandSettings.provide)
).pipe(Command.withDescription("Log in to ChatGPT with a code, for the models of openai-codex"))

/** Deletes the login. */
const logout = Command.make(
  "logout",
  {},
  Effect.fn("hermes model logout")(function* () {
    yield* refuseOthers
    const { logout, stored } = yield* (yield* loadLogins).kept
    if ((yield* stored) === undefined) return yield* printLine("Not logged in to ChatGPT")
    yield* logout
    yield* printLine("Logged out of ChatGPT")
  }, CommandSettings.provide)
).pipe(Command.withDescription("Log out of ChatGPT"))

/** Returns true if the settings select neither a model nor the stand-in. */
const isUnset = (model: Values["model"]): boolean =>
  model.default === undefined && model.provider !== Offline.route.provider

/**
 * Shows the model and, on a terminal, asks for another model. Without a terminal it fails if no model is configured.
 */
export const command = Command.make(
  "model",
  { json },
  Effect.fn("hermes model")(function* (form) {
    const { streams, terminal } = yield* Output
    const isDialogue =
      terminal.input &&
      streams.answer.terminal &&
      !form.json &&
      InheritedLimits.readLimits((yield* Environment).process) === undefined
    const { model } = yield* Settings
    if (!isDialogue && !form.json && isUnset(model) && (yield* hermes).model === undefined) {
      return yield* makeUsageFailure(
        "no model is set up: run `hermes model` in a terminal, or `hermes model set NAME --provider PROVIDER`"
      )
    }
    yield* showModel(form)
    if (!isDialogue) return
    const interrupted = yield* InterruptCode
    yield* printNote("\nChoose a model. Press Ctrl+C to stop without changes.")
    yield* Effect.catchTag(ModelSetup.runSetup({ hasOffline: false }), "QuitError", () =>
      makeSilentFailure(interrupted())
    )
  }, Effect.provide(Config.layerAll()))
).pipe(Command.withSubcommands([list, set, test, ModelProfile.command, login, logout]))
