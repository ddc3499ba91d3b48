/** The generated test of a plugin: a run that calls each of its harmless tools with arguments of the tool's schema. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Json from "../../base/domain/Json.ts"
import * as ToolRegistry from "../../tools/ToolRegistry.ts"
import type { Scenario } from "./PluginScenario.ts"
import { registerDry } from "./PluginCheck.ts"
import { makeTrial, type PluginFolder } from "./PluginTrial.ts"

const maxDepth = 4

/** Returns a value that matches a JSON Schema, as far as it has the common keywords. */
const makeSample = (schema: unknown, depth = 0): unknown => {
  if (!Json.isFields(schema) || depth > maxDepth) return "text"
  if (schema["const"] !== undefined) return schema["const"]
  if (Array.isArray(schema["enum"])) return schema["enum"][0]
  if (schema["default"] !== undefined) return schema["default"]
  const [choice]: ReadonlyArray<unknown> = [schema["anyOf"], schema["oneOf"]].flatMap((one) =>
    Array.isArray(one) ? one : []
  )
  if (choice !== undefined) return makeSample(choice, depth + 1)
  const type: unknown = Array.isArray(schema["type"]) ? schema["type"][0] : schema["type"]
  const least = typeof schema["minimum"] === "number" ? schema["minimum"] : 1
  switch (type) {
    case "object": {
      const properties = Json.isFields(schema["properties"]) ? schema["properties"] : {}
      const required: ReadonlyArray<unknown> = Array.isArray(schema["required"]) ? schema["required"] : []
      return Object.fromEntries(
        Object.entries(properties)
          .filter(([name]) => required.includes(name))
          .map(([name, property]) => [name, makeSample(property, depth + 1)])
      )
    }
    case "array":
      return [makeSample(schema["items"], depth + 1)]
    case "number":
    case "integer":
      return least
    case "boolean":
      return true
    case "null":
      return null
    default:
      return "text"
  }
}

/** Lists the read-only tools of a plugin with sample arguments. Other tools may have effects and are not called. */
const listSampleCalls = Effect.fnUntraced(function* (folder: PluginFolder, config: NonNullable<Scenario["config"]>) {
  const { registered } = yield* registerDry(folder)
  if (registered === undefined || registered.tools.length === 0) return []
  const trial = yield* makeTrial(folder, { files: "copy", config })
  const services = yield* Layer.build(trial.makeLayer({ withoutModel: true }))
  const toolsets = yield* Context.get(services, ToolRegistry.ToolRegistry).list
  return toolsets
    .flatMap(({ tools }) => tools)
    .filter(({ facts, tool }) => registered.tools.includes(tool.name) && facts.readonly === true)
    .map(({ definition, tool }) => ({ name: tool.name, arguments: makeSample(definition.parameters) }))
}, Effect.scoped)

const finish = "The generated test is complete."

/**
 * Generates a scenario: the plugin loads, its read-only tools run, the run completes, and nothing warns. `given` is a
 * scenario that provides the settings.
 */
export const generateScenario = Effect.fnUntraced(function* (folder: PluginFolder, given: Scenario | undefined) {
  const config = given?.config ?? {}
  const calls = (yield* listSampleCalls(folder, config)).map(({ arguments: args, name }) => ({
    name,
    arguments: Json.isFields(args) ? args : {}
  }))
  const scenario: Scenario = {
    name: calls.length === 0 ? "a run completes" : `a run calls ${calls.map(({ name }) => name).join(", ")}`,
    prompt: "Run the generated test.",
    config,
    approve: true,
    // The first turn is optional, and the list is never empty.
    turns: [...(calls.length === 0 ? [] : [{ tool_calls: calls }]), { text: finish }] as unknown as NonNullable<
      Scenario["turns"]
    >,
    expect: { events: ["on_session_start", "on_session_end"] }
  }
  return scenario
})
