/**
 * `hermes prompt`: shows the system prompt of a new session in this directory, or of a stored session, and the size of
 * each of its layers and of the tools, which every request contains.
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
import type { ToolDefinition } from "../../base/domain/ModelCall.ts"
import * as ToolRegistry from "../../tools/ToolRegistry.ts"
import { render } from "../../tools/prompt/SystemPrompt.ts"
import * as CommandSettings from "./CommandSettings.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { Program } from "./Program.ts"
import { printLine } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import { selectTools } from "./RunOptions.ts"
import { withStoredSession } from "./SessionChoice.ts"

const json = Flags.makeSwitch("json", "Print JSON")

/** The layers of the prompt for a new session, and the definitions of its tools. */
const fresh = Effect.gen(function* () {
  const flags = yield* hermes
  const program = yield* Program
  const settings = yield* Settings
  return yield* Effect.gen(function* () {
    const tools = yield* selectTools(flags, settings)
    const { definitions } = yield* ToolRegistry.ToolRegistry.use((registry) => registry.snapshot(tools))
    const layers = yield* Agent.Agent.use((agent) => agent.promptLayers({ tools }))
    return { layers, definitions }
  }).pipe(Effect.provide(program.layer(settings, { unconfigured: "standIn", ignoreRules: flags.ignoreRules })))
}).pipe(CommandSettings.provide)

const estimateTokens = (text: string): number => Math.ceil(text.length / 4)

interface Weight {
  readonly layer: string
  readonly characters: number
  readonly tokens: number
}

const weighText = ({ name, text }: { readonly name: string; readonly text: string }): Weight => ({
  layer: name,
  characters: text.length,
  tokens: estimateTokens(text)
})

const weighTools = (definitions: ReadonlyArray<ToolDefinition>): ReadonlyArray<Weight> =>
  definitions
    .map((definition) => weighText({ name: definition.name, text: JSON.stringify(definition) }))
    .toSorted((a, b) => b.characters - a.characters)

const sumWeights = (layer: string, weights: ReadonlyArray<Weight>): Weight => {
  const characters = weights.reduce((sum, weight) => sum + weight.characters, 0)
  return { layer, characters, tokens: Math.ceil(characters / 4) }
}

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
  const { layers } = yield* fresh
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
    const { definitions, layers } = yield* fresh
    const prompt = weighText({ name: "prompt", text: render(layers) })
    const tools = weighTools(definitions)
    const ofTools = sumWeights(`${tools.length} tools`, tools)
    const total = sumWeights("total", [prompt, ofTools])
    const rows = layers.map(weighText)
    if (json) return yield* printLine(SafeText.toJson({ layers: rows, prompt, tools, total }, 2))
    yield* printLine(
      `${renderWeights([...rows, prompt, ofTools, total])}\n\nlayer, estimated tokens, characters; --json lists each tool`
    )
  })
).pipe(Command.withDescription("Show the estimated tokens of the system prompt and the tools"))

/** The command `hermes prompt`. */
export const command = Command.make("prompt", { json }, showLayers).pipe(Command.withSubcommands([show, size]))
