/**
 * `hermes model` on a terminal: three questions (provider, key, model), then one tiny request. Only a model that answered is
 * saved.
 *
 * The key is not shown while it is typed, goes to the provider that was named and to no other, and is kept in `.env`; that
 * of a custom endpoint beside its address in `config.yaml`. Both files have mode 0600. An empty answer keeps a key that is there. Ctrl+C at any moment leaves everything as it was.
 *
 * Source: `hermes-llm.md` §2; a plain dialogue until there is a screen for it.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Prompt from "effect/cli/Prompt"
import * as Config from "../config/Config.ts"
import * as Edit from "../config/Edit.ts"
import { Environment } from "../config/Environment.ts"
import * as InheritedLimits from "../config/InheritedLimits.ts"
import { Settings } from "../config/Settings.ts"
import * as Directory from "../routing/ProviderDirectory.ts"
import { InterruptCode, notDone, silent } from "./Failure.ts"
import type * as Flags from "./Flags.ts"
import * as Actions from "./ModelActions.ts"
import { line, note, Output } from "./ProgramOutput.ts"

const shownModels = 8
const attempts = 3

/** One question; an empty answer means `otherwise`, where there is one. */
const question = (what: string, otherwise: string | undefined, check: (given: string) => Effect.Effect<string, string>) =>
  Prompt.String({
    message: otherwise === undefined ? what : `${what} [${otherwise}]`,
    validate: (given) => check(given.trim() === "" ? otherwise ?? "" : given.trim())
  })

const chooseProvider = (current: string) =>
  question("Provider", current === "auto" || current === "offline" ? "openrouter" : current, (given) => {
    const found = Directory.find(given)
    return found === undefined || found.name === "offline"
      ? Effect.fail(`Unknown provider "${given}"; use custom for your own endpoint`)
      : Effect.succeed(found.name)
  })

const chooseAddress = (current: string | undefined) =>
  question("Address of the API (base URL)", current, (given) =>
    URL.canParse(given) && /^https?:/.test(given) ? Effect.succeed(given) : Effect.fail("A URL is needed, such as http://127.0.0.1:11434/v1"))

/** Variables that may hold the provider's key already. */
const keptIn = ({ keyVariables }: Directory.Entry) =>
  Effect.map(Environment, ({ get }) => keyVariables.find((name) => get(name) !== undefined))

const chooseKey = Effect.fnUntraced(function*(provider: Directory.Entry) {
  const { authentication, displayName, login } = provider
  if (authentication === "aws" || authentication === "none") return ""
  if (login) {
    yield* note("This provider takes a login: `hermes model login`. A key is not needed after it.")
  }
  const known = yield* keptIn(provider)
  const optional = authentication === "optional" || login
  const how = known === undefined ? optional ? "; empty for none" : "" : `; empty keeps ${known}`
  const given = yield* Prompt.Hidden({
    message: `API key for ${displayName} (not shown${how})`,
    validate: (text) => text.trim() === "" && known === undefined && !optional ? Effect.fail("A key is needed") : Effect.succeed(text.trim())
  })
  return Redacted.value(given)
})

const chooseModel = (models: ReadonlyArray<string>, current: string | undefined) => {
  const more = models.length > shownModels ? `, and ${models.length - shownModels} more: \`hermes model list\`` : ""
  const known = models.length === 0 ? "" : ` (${models.slice(0, shownModels).join(", ")}${more})`
  const suggested = current !== undefined && (models.length === 0 || models.includes(current)) ? current : models[0]
  return question(`Model${known}`, suggested, (given) => given === "" ? Effect.fail("The name of a model is needed") : Effect.succeed(given))
}

/** Keeps the key where the provider's other users look for it; the endpoint of a user has one of its own. */
const saveKey = Effect.fnUntraced(function*({ keyVariables, name }: Directory.Entry, key: string) {
  if (key === "") return
  const variable = name === "custom" ? undefined : keyVariables[0]
  yield* Edit.set(variable ?? "model.api_key", key)
  const environment = yield* Environment
  if (variable !== undefined && (environment.process[variable] ?? key) !== key) {
    yield* note(`Warning: ${variable} is also set in the environment, and that value is used. Unset it to use the new key.`)
  }
})

const dialogue = Effect.gen(function*() {
  const { model: current } = yield* Settings
  const names = Directory.entries.map(({ name }) => name).filter((name) => name !== "offline")
  yield* note(`\nChoose the model that answers. Ctrl+C ends this, and nothing is changed.\nProviders: ${names.join(", ")}`)
  const name = yield* chooseProvider(current.provider)
  const provider = Directory.find(name)
  if (provider === undefined) return yield* notDone(`unknown provider "${name}"`)
  const isCurrent = Directory.find(current.provider)?.name === provider.name
  const baseUrl = provider.baseUrl === undefined && provider.authentication !== "aws"
    ? yield* chooseAddress(isCurrent ? current.baseUrl : undefined)
    : undefined
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const key = yield* chooseKey(provider)
    const route = { provider: provider.name, baseUrl, key }
    const model = yield* chooseModel(yield* Actions.modelsOf(route), isCurrent ? current.default : undefined)
    yield* note(`Asking ${model} for one word …`)
    const answered = yield* Effect.result(Actions.tryRoute({ ...route, model }))
    if (answered._tag === "Success") {
      yield* Edit.setModel({ default: model, provider: provider.name, base_url: baseUrl, api_mode: undefined })
      yield* saveKey(provider, key)
      return yield* line(`${answered.success}. Saved: ${model} of ${provider.displayName} is the main model now.`)
    }
    yield* note(`Not saved: ${answered.failure.message}`)
  }
  return yield* notDone("no model answered, and nothing was changed. Check the key and the name of the model.")
})

/** Shows the model; on a terminal asks for another one, elsewhere says how to set one up where there is none. */
export const run = Effect.fn("hermes model")(function*(flags: Flags.Globals, form: { readonly json: boolean }) {
  const { streams, terminal } = yield* Output
  const isDialogue = terminal.input && streams.answer.terminal && !form.json &&
    InheritedLimits.read((yield* Environment).process) === undefined
  yield* Actions.show(flags, form)
  if (!isDialogue) {
    const { model } = yield* Settings
    const isUnset = model.default === undefined && flags.model === undefined && !form.json
    return isUnset ? yield* note("No model is set up. Run `hermes model` in a terminal, or: hermes model set NAME --provider PROVIDER") : undefined
  }
  const interrupted = yield* InterruptCode
  yield* Effect.catchTag(dialogue, "QuitError", () => silent(interrupted()))
}, (effect) => Effect.provide(effect, Config.layerAll()))
