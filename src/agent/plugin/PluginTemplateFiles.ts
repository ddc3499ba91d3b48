/**
 * Files of a new plugin, by the parts that its author asked for: a module in TypeScript or of plain functions, and a
 * scenario for `hermes plugins test`. Pure.
 */

/** Parts that a new plugin contains. */
export type Part = "tool" | "middleware" | "provider"

/** Kind of a new plugin. */
export interface PluginKind {
  /** Parts of the plugin. If empty, a tool, a hook and middleware. */
  readonly parts: ReadonlyArray<Part>
  /** True for plain functions in JavaScript instead of typed Effects. */
  readonly isPlain: boolean
}

interface Template {
  readonly name: string
  readonly parts: ReadonlySet<Part>
  readonly hasHook: boolean
}

const toToolName = (name: string): string => `${name.replaceAll("-", "_")}_greet`

const renderTool = (name: string): string => `
// The model reads the description and calls the tool with arguments of this shape.
const Greet = Tool.make("${toToolName(name)}", {
  description: "Greets a person by name",
  parameters: Schema.Struct({ name: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)

const toolkit = Toolkit.make(Greet)
`

const renderToolset = (name: string): string => `  tools: [
    Toolset.make(
      "${name}",
      toolkit,
      toolkit.toLayer({ ${toToolName(name)}: ({ name }) => Effect.succeed(\`Hello, \${name}!\`) })
    )
  ]`

const hook = `  hooks: [
    // Runs after each tool call without changing it.
    Hooks.on("post_tool_call", ({ duration_ms, tool_name }) => Effect.logDebug(\`\${tool_name} took \${duration_ms} ms\`))
  ]`

const renderMiddleware = (name: string): string => `  middleware: [
    // Runs around each request to a provider.
    Middleware.llmExecution({
      name: "timing",
      wrap: (next) => (request) => next(request).pipe(Effect.withSpan("${name}.request"))
    })
  ]`

const renderProvider = (name: string): string => `  providers: [
    {
      // Chosen by \`model.provider: ${name}\` in the settings.
      name: "${name}",
      open: (route) =>
        Effect.map(ChatCompletions.make({ ...route, baseUrl: route.baseUrl ?? "http://provider.invalid" }), (base) => ({
          ...base,
          // Send the request to your API here, and return a body of the protocol.
          execute: (request) =>
            base.decode({
              model: request["model"],
              choices: [{ index: 0, message: { role: "assistant", content: "Hello!" }, finish_reason: "stop" }],
              usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
            })
        }))
    }
  ]`

const renderTyped = ({ hasHook, name, parts }: Template): string => {
  const hasTool = parts.has("tool")
  const imports = [
    ...(parts.has("provider") ? ["ChatCompletions"] : []),
    ...(hasHook ? ["Hooks"] : []),
    ...(parts.has("middleware") ? ["Middleware"] : []),
    "Plugin",
    ...(hasTool ? ["Toolset"] : [])
  ]
  const members = [
    ...(hasTool ? [renderToolset(name)] : []),
    ...(hasHook ? [hook] : []),
    ...(parts.has("middleware") ? [renderMiddleware(name)] : []),
    ...(parts.has("provider") ? [renderProvider(name)] : [])
  ]
  const toolImports = `import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
`
  return `import * as Effect from "effect/Effect"
${hasTool ? toolImports : ""}import { ${imports.join(", ")} } from "hermes-effect"
${hasTool ? renderTool(name) : ""}
export default Plugin.fromValue({
  name: "${name}",
${members.join(",\n")}
})
`
}

const renderPlainTool = (name: string): string => `  ctx.registerTool({
    name: "${toToolName(name)}",
    description: "Greets a person by name",
    parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
    readonly: true,
    handler: ({ name }) => \`Hello, \${name}!\`
  })
`

const plainHook = `  // Runs after each tool call without changing it.
  ctx.registerHook("post_tool_call", ({ duration_ms, tool_name }) => {
    console.error(\`\${tool_name} took \${duration_ms} ms\`)
  })
`

const plainMiddleware = `  // Runs around each request to a provider.
  ctx.registerMiddleware("llm_execution", async ({ next_call, request }) => {
    const response = await next_call(request)
    return response
  })
`

const renderPlainProvider = (name: string): string => `  // Chosen by \`model.provider: ${name}\` in the settings.
  ctx.registerProvider({
    name: "${name}",
    open: () => ({
      // Send the request to your API here, and return a body of the protocol.
      execute: async (/** @type {Readonly<Record<string, unknown>>} */ request) => ({
        model: request["model"],
        choices: [{ index: 0, message: { role: "assistant", content: "Hello!" }, finish_reason: "stop" }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
      })
    })
  })
`

const renderPlain = ({ hasHook, name, parts }: Template): string => {
  const members = [
    ...(parts.has("tool") ? [renderPlainTool(name)] : []),
    ...(hasHook ? [plainHook] : []),
    ...(parts.has("middleware") ? [plainMiddleware] : []),
    ...(parts.has("provider") ? [renderPlainProvider(name)] : [])
  ]
  return `/** @param {import("hermes-effect").Plugin.RegisterContext} ctx */
export const register = (ctx) => {
${members.join("\n")}}
`
}

const renderScenario = ({ name, parts }: Template): string => {
  if (parts.has("provider") && !parts.has("tool")) {
    return `name: the provider answers
prompt: Say hello.
settings:
  model: { provider: ${name}, default: my-model }
expect:
  text: Hello!
`
  }
  if (!parts.has("tool")) {
    return `name: the answer is unchanged
prompt: Say hello.
turns:
  - text: Hello!
expect:
  text: Hello!
  requests: { count: 1 }
`
  }
  return `name: the tool greets
prompt: Greet Ada.
turns:
  - tool_calls: [{ name: ${toToolName(name)}, arguments: { name: Ada } }]
  - text: Done.
expect:
  text: Done.
  tools: [{ name: ${toToolName(name)}, status: ok, contains: ["Hello, Ada!"] }]
  events: [pre_tool_call, post_tool_call, on_session_end]
`
}

const describeParts = (parts: ReadonlySet<Part>): string =>
  parts.has("tool") ? "Greets people by name" : parts.has("provider") ? "Answers as a provider" : "Times requests"

/** Returns the description, the module and the scenario of a new plugin, with their file names. */
export const renderFiles = (name: string, { isPlain, parts }: PluginKind) => {
  const chosen = new Set<Part>(parts.length === 0 ? ["tool", "middleware"] : parts)
  const template: Template = { name, parts: chosen, hasHook: parts.length === 0 }
  return {
    description: describeParts(chosen),
    module: isPlain
      ? { file: "index.js", text: renderPlain(template) }
      : { file: "index.ts", text: renderTyped(template) },
    scenario: { file: "scenarios/first.yaml", text: renderScenario(template) }
  }
}
