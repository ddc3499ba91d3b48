/**
 * `hermes prompt`: shows the system prompt of a new session in this directory, or of a stored session, and the size of
 * each of its layers.
 *
 * **Details**
 *
 * No model is called, and nothing is stored. Tokens are estimated: a quarter of the characters, rounded up.
 *
 * Source: `hermes-llm.md` §6.1 and §10.2.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Agent from "../../agent/Agent.ts"
import { Home } from "../../base/config/Environment.ts"
import { Settings } from "../../base/config/Settings.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { type PromptLayer, render } from "../../tools/prompt/SystemPrompt.ts"
import * as CommandSettings from "./CommandSettings.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { Program } from "./Program.ts"
import { printLine } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import { selectTools } from "./RunOptions.ts"
import { withStoredSession } from "./SessionChoice.ts"

const json = Flags.makeSwitch("json", "Print JSON")

/** The layers of the prompt for a new session. */
const fresh = Effect.gen(function* () {
  const flags = yield* hermes
  const program = yield* Program
  const settings = yield* Settings
  return yield* Effect.gen(function* () {
    const tools = yield* selectTools(flags, settings)
    return yield* Agent.Agent.use((agent) => agent.promptLayers({ tools }))
  }).pipe(Effect.provide(program.layer(settings, { unconfigured: "standIn", ignoreRules: flags.ignoreRules })))
}).pipe(CommandSettings.provide)

const estimateTokens = (text: string): number => Math.ceil(text.length / 4)

interface Weight {
  readonly layer: string
  readonly characters: number
  readonly tokens: number
}

const weighLayer = ({ name, text }: PromptLayer): Weight => ({
  layer: name,
  characters: text.length,
  tokens: estimateTokens(text)
})

const renderWeights = (rows: ReadonlyArray<Weight>): string => {
  const width = Math.max(...rows.map(({ layer }) => layer.length))
  return rows
    .map(
      ({ characters, layer, tokens }) =>
        `${layer.padEnd(width)}  ${String(tokens).padStart(6)}  ${String(characters).padStart(9)}`
    )
    .join("\n")
}

const showLayers = Effect.fn("hermes prompt")(function* ({ json }: { readonly json: boolean }) {
  const layers = yield* fresh
  yield* printLine(json ? SafeText.toJson(Redaction.redactValue(layers), 2) : Redaction.redactText(render(layers)))
})

const show = Command.make(
  "show",
  {
    session: Argument.String("session").pipe(
      Argument.withDescription("Id, title or prefix of a stored session; without one, a new session"),
      Argument.optional
    ),
    json
  },
  Effect.fn("hermes prompt show")(function* ({ json, session }) {
    if (session._tag === "None") return yield* showLayers({ json })
    const prompt = yield* Effect.provide(
      withStoredSession(session.value, ({ systemPrompt }) => Effect.succeed(systemPrompt)),
      Home.layer
    )
    yield* printLine(
      json ? SafeText.toJson({ system_prompt: Redaction.redactText(prompt) }, 2) : Redaction.redactText(prompt)
    )
  })
).pipe(Command.withDescription("Show the system prompt of a new session, or of a stored one"))

const size = Command.make(
  "size",
  { json },
  Effect.fn("hermes prompt size")(function* ({ json }) {
    const layers = yield* fresh
    const text = render(layers)
    const total: Weight = { layer: "total", characters: text.length, tokens: estimateTokens(text) }
    const rows = layers.map(weighLayer)
    if (json) return yield* printLine(SafeText.toJson({ layers: rows, total }, 2))
    yield* printLine(`${renderWeights([...rows, total])}\n\nlayer, estimated tokens, characters`)
  })
).pipe(Command.withDescription("Show the estimated tokens of each layer of the system prompt"))

export const command = Command.make("prompt", { json }, showLayers).pipe(Command.withSubcommands([show, size]))
