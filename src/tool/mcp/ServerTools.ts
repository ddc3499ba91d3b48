/**
 * The tools of one MCP server as a toolset of ours: `mcp-<server>`.
 *
 * **Details**
 *
 * Each becomes a `Tool.dynamic` that keeps the schema and the annotations of its server. One without annotations counts as
 * destructive. A tool that is not trusted (`mcp_servers.<name>.trust`) needs an approval: whoever is there is asked, and
 * where nobody is it does not run. Unless the configuration says that calls may overlap, they reach the server one after the
 * other.
 *
 * A server that declares resources or prompts brings `list_resources`, `read_resource`, `list_prompts` and `get_prompt`.
 *
 * **Gotchas**
 *
 * A hint is what the server claims of itself.
 *
 * Source: `ARCHITECTURE.md` §5, `hermes-product.md` §2.4.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Annotations from "../Annotations.ts"
import * as Toolset from "../Toolset.ts"
import type { CallResult, Connection, Descriptor, Hints } from "./Connection.ts"
import { McpError } from "./McpError.ts"
import * as McpNames from "./McpNames.ts"
import * as McpResult from "./McpResult.ts"
import type { ServerConfig } from "./ServerConfig.ts"
import * as DescriptionSanitizer from "./DescriptionSanitizer.ts"

/** Characters of a result that the model gets of a server's tool. */
const resultBound = 50_000

/** Does something with the server as it is connected at that time. */
export type Use = <A>(work: (connection: Connection) => Effect.Effect<A, McpError>) => Effect.Effect<A, McpError>

/** A tool and what it does. */
export interface Entry {
  readonly tool: Tool.Any
  readonly handler: (
    params: unknown,
    progress: (message: string) => void
  ) => Effect.Effect<McpResult.Success, McpResult.Failure>
}

const says = ({ message }: McpError): McpResult.Failure => ({ error: message })

const answer = (result: CallResult): Effect.Effect<McpResult.Success, McpResult.Failure> => {
  const output = McpResult.ofCall(result)
  if (!result.isError) return Effect.succeed(output)
  const text = typeof output === "string" ? output : output.text
  return Effect.fail({ error: text === "" ? "the tool failed and did not say why" : text })
}

interface Described {
  /** As the server calls it, and as the model does. */
  readonly own: string
  readonly name: string
  readonly description: string
  readonly parameters: Descriptor["inputSchema"]
  readonly hints: Hints
}

const dynamic = (config: ServerConfig, { description, hints, name, own, parameters }: Described): Tool.Any => {
  const { destructiveHint, idempotentHint, readOnlyHint } = hints
  const needsApproval = !config.isTrusted(own, hints)
  const tool = Tool.dynamic(name, {
    description,
    parameters: { type: "object", properties: {}, ...parameters },
    success: McpResult.Success,
    failure: McpResult.Failure,
    failureMode: "return",
    ...(needsApproval ? { needsApproval } : {})
  }).annotate(Tool.Strict, false)
    .annotate(Annotations.ResultBound, resultBound)
    .annotate(Tool.Readonly, readOnlyHint === true)
    .annotate(Tool.Destructive, readOnlyHint !== true && destructiveHint !== false)
    .annotate(Annotations.OwnApproval, true)
    .annotate(Annotations.ApprovalRemedy, `to run it unasked, list ${own} in mcp_servers.${config.name}.trust.tools`)
    // Results of a server are data, whatever they say.
    .annotate(Tool.OpenWorld, true)
  return idempotentHint === undefined ? tool : tool.annotate(Tool.Idempotent, idempotentHint)
}

/** The server's own tools that the configuration lets through, each with a name of its own. */
export const entries = (config: ServerConfig, use: Use, descriptors: ReadonlyArray<Descriptor>): ReadonlyArray<Entry> => {
  const offered = McpNames.filter(config.include, config.exclude)
  const chosen = descriptors.filter(({ name }) => offered(name))
  const names = McpNames.tools(config.name, chosen.map(({ name }) => name))
  return chosen.map((descriptor, index) => {
    const told = DescriptionSanitizer.of(descriptor, `${descriptor.name} of the MCP server ${config.name}`)
    return {
      tool: dynamic(config, {
        own: descriptor.name,
        name: names[index] ?? McpNames.tool(config.name, descriptor.name),
        description: told.description,
        parameters: told.inputSchema,
        hints: descriptor.annotations ?? {}
      }),
      handler: (params, progress) =>
        Effect.matchEffect(use(({ callTool }) => callTool(descriptor.name, argumentsOf(params), progress)), {
          onFailure: (error) => Effect.fail(says(error)),
          onSuccess: answer
        })
    }
  })
}

/** The runtime hands on nothing but objects; a wrapper of a call may not know. */
const argumentsOf = (params: unknown): Readonly<Record<string, unknown>> =>
  typeof params === "object" && params !== null ? { ...params } : {}

const text = (params: unknown, name: string): string => {
  const value = argumentsOf(params)[name]
  return typeof value === "string" ? value : ""
}

const readOnly: Hints = { readOnlyHint: true, idempotentHint: true }
const nothing: Descriptor["inputSchema"] = {}

const utility = (
  config: ServerConfig,
  name: string,
  description: string,
  parameters: Descriptor["inputSchema"],
  work: (params: unknown) => Effect.Effect<McpResult.Success, McpError>
): Entry => ({
  tool: dynamic(config, {
    own: name,
    name: McpNames.tool(config.name, name),
    description: `${description} of the MCP server ${config.name}.`,
    parameters,
    hints: readOnly
  }),
  handler: (params) => Effect.mapError(work(params), says)
})

const json = (value: unknown): string => McpResult.bounded(JSON.stringify(value))

const stringRecord = Schema.decodeUnknownEffect(Schema.Record(Schema.String, Schema.String))

/** The utility tools for what the server declares besides tools. */
export const utilities = (config: ServerConfig, use: Use, { offers }: Pick<Connection, "offers">): ReadonlyArray<Entry> => [
  ...(offers.resources
    ? [
      utility(config, "list_resources", "Lists the resources", nothing, () =>
        Effect.map(use(({ listResources }) => listResources), (resources) => json({ resources }))),
      utility(
        config,
        "read_resource",
        "Reads one resource",
        { properties: { uri: { type: "string", description: "Its uri, as list_resources gives it" } }, required: ["uri"] },
        (params) => Effect.map(use(({ readResource }) => readResource(text(params, "uri"))), McpResult.ofBlocks)
      )
    ]
    : []),
  ...(offers.prompts
    ? [
      utility(config, "list_prompts", "Lists the prompts", nothing, () =>
        Effect.map(use(({ listPrompts }) => listPrompts), (prompts) => json({ prompts }))),
      utility(
        config,
        "get_prompt",
        "Gets the text of one prompt",
        {
          properties: {
            name: { type: "string" },
            arguments: { type: "object", additionalProperties: { type: "string" }, description: "Its arguments; all are texts" }
          },
          required: ["name"]
        },
        (params) =>
          stringRecord(argumentsOf(params)["arguments"] ?? {}).pipe(
            Effect.mapError(() =>
              new McpError({ server: config.name, reason: "refused", message: "the arguments of a prompt are texts: give an object of strings" })
            ),
            Effect.flatMap((args) => use(({ getPrompt }) => getPrompt(text(params, "name"), args))),
            Effect.map(McpResult.ofBlocks)
          )
      )
    ]
    : [])
]

/** Images go to the model as images, and to everybody else as what the text says. */
const withMedia = (bound: Toolset.BoundTool): Toolset.BoundTool => ({
  ...bound,
  run: (params, callId, onProgress) =>
    Effect.map(bound.run(params, callId, onProgress), (result) =>
      Schema.is(McpResult.WithMedia)(result.output)
        ? { ...result, output: result.output.text, modelOutput: McpResult.parts(result.output) }
        : result)
})

/** A toolset of entries. */
export const toolset = (config: ServerConfig, list: ReadonlyArray<Entry>): Toolset.Toolset => {
  const toolkit = Toolkit.make(...list.map(({ tool }) => tool))
  const handlers = Object.fromEntries(list.map(({ handler, tool }) => [
    tool.name,
    (params: unknown, context: { readonly preliminary: (result: McpResult.Success) => Effect.Effect<void> }) =>
      Effect.flatMap(Effect.context<never>(), (services) =>
        handler(params, (message) => void Effect.runForkWith(services)(context.preliminary(message))))
  ]))
  // The names are known at run time only: the types of the toolkit say nothing about them.
  const made = Toolset.make(McpNames.toolset(config.name), toolkit, toolkit.toLayer(handlers as never)) as Toolset.Toolset
  return { ...made, bind: Effect.map(made.bind, (tools) => tools.map(withMedia)) }
}
