/**
 * The tools of one MCP server as the toolset `mcp-<server>`.
 *
 * **Details**
 *
 * Each tool becomes a `Tool.dynamic` with the schema of its server. Its annotations are unverified claims: they count
 * once the user trusts the server or the tool (`mcp_servers.<name>.trust`), and until then the tool counts as
 * destructive. An untrusted tool needs an approval and does not run if no user can be asked. Calls reach the server one
 * at a time, unless the configuration allows them to overlap.
 *
 * A server that declares resources or prompts also provides `list_resources`, `read_resource`, `list_prompts` and
 * `get_prompt`. They are read-only by the protocol, not by a claim of the server. If `read_resource` is called with an
 * address on another host, the gate checks it (`EgressGate`).
 *
 * Source: `ARCHITECTURE.md` §5, `hermes-product.md` §2.4.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type * as RecordEvent from "../../base/domain/RecordEvent.ts"
import * as RunRecorder from "../../base/domain/RunRecorder.ts"
import { Correlation } from "../../hooks/Correlation.ts"
import { redactKeys } from "../../base/domain/Redaction.ts"
import * as Annotations from "../Annotations.ts"
import * as TextHygiene from "../../base/domain/TextHygiene.ts"
import * as ToolContent from "../../base/domain/ToolContent.ts"
import * as Injection from "../../base/domain/Injection.ts"
import * as EgressGate from "../fence/EgressGate.ts"
import { formatHost } from "../fence/Urls.ts"
import * as Toolset from "../Toolset.ts"
import { type CallResult, type Connection, type Descriptor, type Hints, McpError } from "./McpConnection.ts"
import { limitText, Failure, fromBlocks, fromCall, Success } from "./ServerAnswer.ts"
import {
  makeNameFilter,
  type ServerConfig,
  formatToolName,
  formatToolNames,
  formatToolsetName,
  type ToolTrust
} from "./ServerConfig.ts"

// Sanitizes a server's descriptions of its tools. Removes text that tries to command the model and keys, in the
// description of the tool and in its schema.
//
// Source: `hermes-llm.md` §19.3 (patterns), `ARCHITECTURE.md` §5.

const maxDepth = 32

/** Members of a JSON Schema that contain prose. */
const prose = new Set(["description", "title", "$comment", "examples", "default", "markdownDescription"])

/** Removes keys from one or several texts. */
const withoutKeys = (value: unknown): unknown =>
  typeof value === "string" ? redactKeys(value) : Array.isArray(value) ? value.map(withoutKeys) : value

/** Removes suspicious prose from a schema. The names of its properties are data and remain. */
const sanitizeSchema = (value: unknown, named: boolean, depth: number): unknown => {
  if (typeof value !== "object" || value === null || depth >= maxDepth) return value
  if (Array.isArray(value)) return value.map((item: unknown) => sanitizeSchema(item, false, depth + 1))
  const kept = Object.entries(value).filter(
    ([key, item]) =>
      named || !prose.has(key) || Injection.scan(JSON.stringify(item) ?? "", "tool description").length === 0
  )
  return Object.fromEntries(
    kept.map(([key, item]) => [
      key,
      sanitizeSchema(!named && prose.has(key) ? withoutKeys(item) : item, key === "properties" && !named, depth + 1)
    ])
  )
}

/** Sanitized description of a tool for the model. */
interface SanitizedDescription {
  readonly description: string
  readonly inputSchema: Descriptor["inputSchema"]
}

/** Sanitises a server's description of its tools. `fallback` is used if the server does not provide one. */
export const sanitizeDescription = (
  { description, inputSchema, name }: Descriptor,
  fallback: string
): SanitizedDescription => ({
  description:
    description === undefined
      ? fallback
      : Injection.screenToolDescription(
          name,
          redactKeys(TextHygiene.withoutControls(TextHygiene.toWellFormed(description)))
        ).text,
  // The schema remains valid, because only prose is removed from it.
  inputSchema: sanitizeSchema(TextHygiene.toWellFormedValue(inputSchema), false, 0) as Descriptor["inputSchema"]
})

/** Maximum number of characters of a server tool's result for the model. */
const resultBound = 50_000

/** Runs work with the connection that exists at that time. */
export type Use = <A>(work: (connection: Connection) => Effect.Effect<A, McpError>) => Effect.Effect<A, McpError>

/** A tool and its handler. */
export interface Entry {
  readonly tool: Tool.Any
  readonly handler: (params: unknown, progress: (message: string) => void) => Effect.Effect<Success, Failure>
}

const toFailure = ({ message }: McpError): Failure => ({ error: message })

const toOutcome = (result: CallResult): Effect.Effect<Success, Failure> => {
  const output = fromCall(result)
  if (!result.isError) return Effect.succeed(output)
  const text = typeof output === "string" ? output : ToolContent.toText(output)
  return Effect.fail({ error: text === "" ? "the tool failed and did not say why" : text })
}

interface DescribedTool {
  /** Name of the tool at the server; `name` is its name for the model. */
  readonly own: string
  readonly name: string
  readonly description: string
  readonly parameters: Descriptor["inputSchema"]
  /** Claims of the server. */
  readonly hints: Hints
  readonly trust: ToolTrust
}

const makeDynamicTool = (
  config: ServerConfig,
  { description, hints, name, own, parameters, trust }: DescribedTool
): Tool.Any => {
  const { destructiveHint, idempotentHint, readOnlyHint } = trust.hints
  const needsApproval = !trust.isTrusted
  const isClaimed = needsApproval && hints.readOnlyHint === true
  const tool = Tool.dynamic(name, {
    description,
    parameters: { type: "object", properties: {}, ...parameters },
    success: Success,
    failure: Failure,
    failureMode: "return",
    ...(needsApproval ? { needsApproval } : {})
  })
    .annotate(Tool.Strict, false)
    .annotate(Annotations.ResultBound, resultBound)
    // The server's own timeout applies.
    .annotate(Annotations.Timeout, Duration.infinity)
    .annotate(Tool.Readonly, readOnlyHint === true)
    .annotate(Tool.Destructive, readOnlyHint !== true && destructiveHint !== false)
    .annotate(Annotations.OwnApproval, true)
    .annotate(Annotations.ClaimedReadonly, isClaimed)
    .annotate(
      Annotations.ApprovalRemedy,
      isClaimed
        ? `to believe its server, set mcp_servers.${config.name}.trust to annotations`
        : `to run it without asking, list ${own} in mcp_servers.${config.name}.trust.tools`
    )
    // Results of a server are always data, never instructions.
    .annotate(Tool.OpenWorld, true)
  return idempotentHint === undefined ? tool : tool.annotate(Tool.Idempotent, idempotentHint)
}

/** Runs a request to the server and adds it to the run record. */
const runWithRecord = <A>(
  config: ServerConfig,
  use: Use,
  request: Pick<RecordEvent.McpRequested, "method" | "target" | "uri">,
  work: (connection: Connection) => Effect.Effect<A, McpError>
): Effect.Effect<A, McpError> => {
  const { name, transport } = config
  const place =
    transport._tag === "Stdio"
      ? {}
      : {
          address: transport.url.hostname,
          port: Number(transport.url.port) || (transport.url.protocol === "https:" ? 443 : 80)
        }
  return use((connection) =>
    Effect.flatMap(Correlation, ({ tool_call_id: callId }) => {
      const session = connection.session?.()
      return RunRecorder.record(({ write }) => {
        write({
          _tag: "McpRequested",
          callId,
          server: name,
          ...request,
          protocol: connection.protocol,
          ...(session === undefined ? {} : { session }),
          ...place
        })
      })
    }).pipe(Effect.andThen(work(connection)))
  )
}

/** Creates entries for the server's own tools that the configuration allows, each with a unique name. */
export const makeEntries = (
  config: ServerConfig,
  use: Use,
  descriptors: ReadonlyArray<Descriptor>
): ReadonlyArray<Entry> => {
  const offered = makeNameFilter(config.include, config.exclude)
  const chosen = descriptors.filter(({ name }) => offered(name))
  const names = formatToolNames(
    config.name,
    chosen.map(({ name }) => name)
  )
  return chosen.map((descriptor, index) => {
    const told = sanitizeDescription(descriptor, `${descriptor.name} of the MCP server ${config.name}`)
    return {
      tool: makeDynamicTool(config, {
        own: descriptor.name,
        name: names[index] ?? formatToolName(config.name, descriptor.name),
        description: told.description,
        parameters: told.inputSchema,
        hints: descriptor.annotations ?? {},
        trust: config.trustIn(descriptor.name, descriptor.annotations ?? {})
      }),
      handler: (params, progress) =>
        Effect.matchEffect(
          runWithRecord(config, use, { method: "tools/call", target: descriptor.name }, ({ callTool }) =>
            callTool(descriptor.name, readArguments(params), progress)
          ),
          { onFailure: (error) => Effect.fail(toFailure(error)), onSuccess: toOutcome }
        )
    }
  })
}

/**
 * Returns the arguments as an object. The runtime passes only objects, but a wrapper of the call may pass other values.
 */
const readArguments = (params: unknown): Readonly<Record<string, unknown>> =>
  typeof params === "object" && params !== null ? { ...params } : {}

const readText = (params: unknown, name: string): string => {
  const value = readArguments(params)[name]
  return typeof value === "string" ? value : ""
}

const readOnly: Hints = { readOnlyHint: true, idempotentHint: true }
const nothing: Descriptor["inputSchema"] = {}

const makeUtility = (
  config: ServerConfig,
  name: string,
  description: string,
  parameters: Descriptor["inputSchema"],
  work: (params: unknown) => Effect.Effect<Success, McpError>
): Entry => ({
  tool: makeDynamicTool(config, {
    own: name,
    name: formatToolName(config.name, name),
    description: `${description} of the MCP server ${config.name}.`,
    parameters,
    hints: readOnly,
    trust: { isTrusted: true, hints: readOnly }
  }),
  handler: (params) => Effect.mapError(work(params), toFailure)
})

const toJsonText = (value: unknown): string => limitText(JSON.stringify(value))

const stringRecord = Schema.decodeUnknownEffect(Schema.Record(Schema.String, Schema.String))

/** Creates the utility tools for the resources and prompts that the server declares. */
export const makeUtilities = (
  config: ServerConfig,
  use: Use,
  { offers }: Pick<Connection, "offers">
): ReadonlyArray<Entry> => [
  ...(offers.resources
    ? [
        makeUtility(config, "list_resources", "Lists the resources", nothing, () =>
          Effect.map(
            runWithRecord(config, use, { method: "resources/list" }, ({ listResources }) => listResources),
            (resources) => toJsonText({ resources })
          )
        ),
        makeUtility(
          config,
          "read_resource",
          "Reads one resource",
          {
            properties: { uri: { type: "string", description: "Its uri, as given by list_resources" } },
            required: ["uri"]
          },
          (params) => {
            const uri = readText(params, "uri")
            return Effect.map(
              runWithRecord(config, use, { method: "resources/read", uri }, ({ readResource }) => readResource(uri)),
              fromBlocks
            )
          }
        )
      ]
    : []),
  ...(offers.prompts
    ? [
        makeUtility(config, "list_prompts", "Lists the prompts", nothing, () =>
          Effect.map(
            runWithRecord(config, use, { method: "prompts/list" }, ({ listPrompts }) => listPrompts),
            (prompts) => toJsonText({ prompts })
          )
        ),
        makeUtility(
          config,
          "get_prompt",
          "Gets the text of one prompt",
          {
            properties: {
              name: { type: "string" },
              arguments: {
                type: "object",
                additionalProperties: { type: "string" },
                description: "Its arguments; all strings"
              }
            },
            required: ["name"]
          },
          (params) =>
            stringRecord(readArguments(params)["arguments"] ?? {}).pipe(
              Effect.mapError(
                () =>
                  new McpError({
                    server: config.name,
                    reason: "refused",
                    message: "the arguments of a prompt are texts: give an object of strings"
                  })
              ),
              Effect.flatMap((args) =>
                runWithRecord(
                  config,
                  use,
                  { method: "prompts/get", target: readText(params, "name") },
                  ({ getPrompt }) => getPrompt(readText(params, "name"), args)
                )
              ),
              Effect.map(fromBlocks)
            )
        )
      ]
    : [])
]

/**
 * Selects the address if the server is asked to read from another host. The server's own host was chosen by the user.
 */
const makeResourceSelector = ({ name, transport }: ServerConfig): EgressGate.AddressSelector => {
  const reader = formatToolName(name, "read_resource")
  const own = transport._tag === "Http" ? formatHost(transport.url) : undefined
  return (tool, { uri }) => {
    const url = tool === reader && typeof uri === "string" ? URL.parse(uri.trim()) : null
    return url === null || !/^https?:$/.test(url.protocol) || formatHost(url) === own ? [] : [url.href]
  }
}

/** Creates a toolset from entries. */
export const makeToolset = (config: ServerConfig, list: ReadonlyArray<Entry>): Toolset.Toolset => {
  const toolkit = Toolkit.make(...list.map(({ tool }) => tool))
  const handlers = Object.fromEntries(
    list.map(({ handler, tool }) => [
      tool.name,
      (params: unknown, context: { readonly preliminary: (result: Success) => Effect.Effect<void> }) =>
        Effect.flatMap(Effect.context<never>(), (services) =>
          handler(params, (message) => void Effect.runForkWith(services)(context.preliminary(message)))
        )
    ])
  )
  // The names are known only at run time, so the types of the toolkit do not contain them.
  const layer = toolkit.toLayer(handlers as never)
  // The names are known only at run time here as well.
  const made = Toolset.make(formatToolsetName(config.name), toolkit, layer) as Toolset.Toolset
  return EgressGate.guardAddresses(made, makeResourceSelector(config))
}

// The search tool that represents a large server's tools and makes the tools that it finds available. The tools that it
// finds are made available.
//
// **Details**
//
// Found tools stay available to all sessions for the lifetime of the runtime. Words are searched for in names and
// descriptions; a match in a name counts more.
//
// Source: the delegation and MCP document (lazy schema loading).

/** Maximum number of tools that one search offers. */
const maxFound = 10

const splitWords = (text: string): ReadonlyArray<string> => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []

const scoreEntry = (entry: Entry, wanted: ReadonlyArray<string>): number => {
  const name = entry.tool.name.toLowerCase()
  const description = (Tool.getDescription(entry.tool) ?? "").toLowerCase()
  return wanted.reduce((sum, word) => sum + (name.includes(word) ? 3 : 0) + (description.includes(word) ? 1 : 0), 0)
}

/** Returns the best-matching entries, best first; an exact name is the best match. */
const searchEntries = (entries: ReadonlyArray<Entry>, query: string): ReadonlyArray<Entry> => {
  const wanted = splitWords(query)
  const exact = entries.filter(({ tool }) => query.split(/[\s,]+/).includes(tool.name))
  const others = entries
    .filter((entry) => !exact.includes(entry))
    .map((entry) => ({ entry, score: scoreEntry(entry, wanted) }))
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score)
  return [...exact, ...others.map(({ entry }) => entry)].slice(0, maxFound)
}

const readQuery = (params: unknown): string =>
  typeof params === "object" && params !== null && "query" in params && typeof params.query === "string"
    ? params.query
    : ""

/**
 * Creates the search tool of a server. Names that it finds are added to `wanted`; `offer` receives all wanted tools.
 */
export const makeSearchTool = (
  config: ServerConfig,
  entries: ReadonlyArray<Entry>,
  wanted: Set<string>,
  offer: (found: ReadonlyArray<Entry>) => Effect.Effect<unknown>
): Entry => ({
  tool: Tool.dynamic(formatToolName(config.name, "search_tools"), {
    description:
      `The MCP server ${config.name} has ${entries.length} tools, too many to show. Finds those that fit some words ` +
      "(or exact names) and makes them available: call the ones that you need in your next step.",
    parameters: {
      type: "object",
      properties: { query: { type: "string", description: "What the tool should do, in a few words" } },
      required: ["query"]
    },
    success: Success,
    failure: Failure,
    failureMode: "return"
  })
    .annotate(Tool.Readonly, true)
    .annotate(Tool.Strict, false),
  handler: Effect.fnUntraced(function* (params) {
    const hits = searchEntries(entries, readQuery(params))
    const isNew = hits.some(({ tool }) => !wanted.has(tool.name))
    hits.forEach(({ tool }) => wanted.add(tool.name))
    if (isNew) yield* offer(entries.filter(({ tool }) => wanted.has(tool.name)))
    return JSON.stringify({
      available: hits.map(({ tool }) => ({ name: tool.name, description: Tool.getDescription(tool) })),
      ...(hits.length === 0 ? { hint: "no tool matches: try other words" } : {})
    })
  })
})
