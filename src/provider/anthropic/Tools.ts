/**
 * Tools and tool choice in the words of the Messages API. `none` leaves the tools out (`hermes-llm.md` §4.2).
 *
 * @since 0.1.0
 */
import type * as JsonSchema from "effect/JsonSchema"
import type { ToolChoice, ToolDefinition } from "../../domain/Model.ts"

/** A tool on the wire. */
export interface Tool {
  readonly name: string
  readonly description: string
  readonly input_schema: JsonSchema.JsonSchema
}

/** A converter with a memory: the tools of a run are one array as long as they are the same. */
export const make = (
  toolName: (name: string) => string
): (tools: ReadonlyArray<ToolDefinition>) => ReadonlyArray<Tool> => {
  const known = new WeakMap<ReadonlyArray<ToolDefinition>, ReadonlyArray<Tool>>()
  return (tools) => {
    const before = known.get(tools)
    if (before !== undefined) return before
    const converted = tools.map((tool) => ({
      name: toolName(tool.name),
      description: tool.description,
      input_schema: tool.parameters["type"] === "object"
        ? tool.parameters
        : { properties: {}, ...tool.parameters, type: "object" }
    }))
    known.set(tools, converted)
    return converted
  }
}

/** The choice on the wire; undefined for `none`. */
export const choice = (
  toolChoice: ToolChoice,
  toolName: (name: string) => string
): Readonly<Record<string, string>> | undefined => {
  if (typeof toolChoice === "object") return { type: "tool", name: toolName(toolChoice.tool) }
  switch (toolChoice) {
    case "auto":
      return { type: "auto" }
    case "required":
      return { type: "any" }
    case "none":
      return undefined
  }
}
