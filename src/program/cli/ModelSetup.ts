/**
 * The questions that set up a model: provider, key and model name. The model is then tested with one small request, and
 * saved only if it answered.
 *
 * **Details**
 *
 * The key is hidden while it is typed, is sent only to the named provider, and is stored in `.env`; `config.yaml`
 * refers to the key of a custom endpoint. Both files have mode 0600. An empty answer keeps an existing key. The offered
 * models are the ones that the provider lists for this key. Ctrl+C at any time leaves everything unchanged.
 *
 * A conversation starts with these questions if no model is configured ({@link firstRun}). Ctrl+C then continues with
 * the offline stand-in.
 *
 * Source: `hermes-llm.md` §2 and §10.1, `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Prompt from "effect/cli/Prompt"
import * as Config from "../../base/config/Config.ts"
import * as Edit from "../../base/config/Edit.ts"
import { Environment } from "../../base/config/Environment.ts"
import { Settings } from "../../base/config/Settings.ts"
import * as Offline from "../../models/provider/Offline.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import * as Directory from "../../models/routing/ProviderDirectory.ts"
import * as ConfiguredModels from "./ConfiguredModels.ts"
import { makeWorkFailure } from "./Failure.ts"
import { printLine, printNote } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const attempts = 3

/** Variable that contains the key of a custom endpoint. */
const endpointKey = "CUSTOM_ENDPOINT_API_KEY"

/** Creates a question. An empty answer means `otherwise`, if it is given. */
const makeQuestion = (
  what: string,
  otherwise: string | undefined,
  check: (given: string) => Effect.Effect<string, string>
) =>
  Prompt.String({
    message: otherwise === undefined ? what : `${what} [${otherwise}]`,
    validate: (given) => check(given.trim() === "" ? (otherwise ?? "") : given.trim())
  })

/** Creates a selection list with the first choice marked. */
const makeSelection = <const A>(
  message: string,
  choices: ReadonlyArray<{ readonly title: string; readonly value: A }>
) => Prompt.AutoComplete({ message, choices, maxPerPage: 8, filterPlaceholder: "type to search" })

/** Finds the environment variable that already contains the provider's key. */
const findKeyVariable = ({ keyVariables }: Directory.Entry) =>
  Effect.map(Environment, ({ get }) => keyVariables.find((name) => get(name) !== undefined))

/** Asks for the provider. The configured provider is listed first, then the providers with a known key. */
const chooseProvider = Effect.fnUntraced(function* (current: string, hasOffline: boolean) {
  const known = yield* Effect.forEach(
    Directory.entries.filter(({ name }) => name !== Offline.route.provider),
    (entry) =>
      Effect.map(findKeyVariable(entry), (variable) => ({
        entry,
        variable: entry.name === "custom" ? undefined : variable
      }))
  )
  const rank = ({ entry, variable }: (typeof known)[number]): number =>
    entry.name === current
      ? 0
      : variable !== undefined
        ? 1
        : entry.name === "openrouter"
          ? 2
          : entry.name === "custom"
            ? 3
            : 4
  const choices = known
    .toSorted((a, b) => rank(a) - rank(b))
    .map(({ entry, variable }) => ({
      title: `${entry.name === "custom" ? "custom: your own endpoint" : `${entry.name}: ${entry.displayName}`}${variable === undefined ? "" : ` (${variable} is set)`}`,
      value: entry
    }))
  return yield* makeSelection<Directory.Entry | undefined>("Provider", [
    ...choices,
    ...(hasOffline ? [{ title: "offline: the built-in stand-in, without a key", value: undefined }] : [])
  ])
})

const chooseAddress = (current: string | undefined) =>
  makeQuestion("Address of the API (base URL)", current, (given) =>
    URL.canParse(given) && /^https?:/.test(given)
      ? Effect.succeed(given)
      : Effect.fail("Enter a URL such as http://127.0.0.1:11434/v1")
  )

const chooseKey = Effect.fnUntraced(function* (provider: Directory.Entry) {
  const { authentication, displayName, login } = provider
  if (authentication === "aws" || authentication === "none") return ""
  if (login) {
    yield* printNote("This provider supports a login: `hermes model login`. You do not need a key then.")
  }
  const known = yield* findKeyVariable(provider)
  const optional = authentication === "optional" || login
  const how = known === undefined ? (optional ? "; empty for none" : "") : `; empty keeps ${known}`
  const given = yield* Prompt.Hidden({
    message: `API key for ${displayName} (not shown${how})`,
    validate: (text) =>
      text.trim() === "" && known === undefined && !optional
        ? Effect.fail("A key is needed")
        : Effect.succeed(text.trim())
  })
  return Redacted.value(given)
})

const promptModelName = (suggested: string | undefined) =>
  makeQuestion("Name of the model", suggested, (given) =>
    given === "" ? Effect.fail("Enter a model name") : Effect.succeed(given)
  )

const chooseModel = Effect.fnUntraced(function* (models: ReadonlyArray<string>, current: string | undefined) {
  if (models.length === 0) return yield* promptModelName(current)
  const first = current !== undefined && models.includes(current) ? [current] : []
  const chosen = yield* makeSelection<string | undefined>(`Model (${models.length} listed)`, [
    ...[...first, ...models.filter((model) => model !== first[0])].map((model) => ({
      title: SafeText.toLine(model),
      value: model
    })),
    { title: "another name …", value: undefined }
  ])
  return chosen ?? (yield* promptModelName(current))
})

/**
 * Saves the key in the variable that other users of the provider read. A custom endpoint has a separate variable.
 * Returns the location of the key.
 */
const saveKey = Effect.fnUntraced(function* ({ keyVariables, name }: Directory.Entry, key: string) {
  if (key === "") return undefined
  const variable = name === "custom" ? endpointKey : keyVariables[0]
  if (variable === undefined) return undefined
  yield* Edit.set(variable, key)
  if (name === "custom") yield* Edit.set("model.api_key", `\${${variable}}`)
  const environment = yield* Environment
  if ((environment.process[variable] ?? key) !== key) {
    yield* printNote(
      `Warning: ${variable} is also set in the environment, and that value is used. Unset it to use the new key.`
    )
  }
  return variable
})

/** Asks the questions, tests the model and saves it. With `hasOffline` the stand-in is one of the providers. */
export const runSetup = Effect.fnUntraced(function* ({ hasOffline }: { readonly hasOffline: boolean }) {
  const { model: current } = yield* Settings
  const provider = yield* chooseProvider(Directory.findProvider(current.provider)?.name ?? "", hasOffline)
  if (provider === undefined) {
    yield* Edit.set("model.provider", Offline.route.provider)
    return yield* printLine("Saved: the offline stand-in answers. Run `hermes model` to set up a model.")
  }
  const isCurrent = Directory.findProvider(current.provider)?.name === provider.name
  const baseUrl =
    provider.baseUrl === undefined && provider.authentication !== "aws"
      ? yield* chooseAddress(isCurrent ? current.baseUrl : undefined)
      : undefined
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const key = yield* chooseKey(provider)
    const route = { provider: provider.name, baseUrl, key }
    const model = yield* chooseModel(
      yield* ConfiguredModels.listModelNames(route),
      isCurrent ? current.default : undefined
    )
    yield* printNote(`Asking ${SafeText.toLine(model)} for one word …`)
    const answered = yield* Effect.result(ConfiguredModels.tryRoute({ ...route, model }))
    if (Result.isSuccess(answered)) {
      yield* Edit.setModel({ default: model, provider: provider.name, base_url: baseUrl, api_mode: undefined })
      const variable = yield* saveKey(provider, key)
      return yield* printLine(
        `${answered.success}. Saved: ${SafeText.toLine(model)} of ${provider.displayName} is the main ` +
          `model now (config.yaml${variable === undefined ? "" : `; the key as ${variable} in .env`}).`
      )
    }
    yield* printNote(`Not saved: ${answered.failure.message}`)
  }
  return yield* makeWorkFailure("no model answered, so nothing was changed. Check the key and the model name.")
})

/**
 * Sets up a model before the first conversation if none is configured. The conversation starts even if the set-up is
 * cancelled.
 */
export const firstRun = (options: Config.Options) =>
  Effect.gen(function* () {
    if (ConfiguredRoutes.findMissingModel({ settings: yield* Settings, environment: yield* Environment }) === undefined)
      return
    yield* printNote(
      "\nNo model is set up yet. Choose one, or press Ctrl+C to use the offline stand-in, which only " +
        "follows plain instructions."
    )
    yield* runSetup({ hasOffline: true }).pipe(
      Effect.catchTag("QuitError", () =>
        printNote("\nNothing was changed. Run `hermes model` to set up a model at any time.")
      ),
      Effect.catchTag("Failure", ({ message }) => printNote(`Nothing was changed: ${message}`))
    )
  }).pipe(Effect.provide(Config.layerAll(options)))
