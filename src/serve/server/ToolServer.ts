/**
 * Serves the tools of a runtime over MCP, to any client of that protocol: over standard input and output, or over HTTP.
 *
 * **Details**
 *
 * The schemas of arguments and results, the names and the annotations come from the toolsets. A result that is an
 * object is also sent as structured content, and images of a result as images. A failure of a tool, typed or not, is a
 * result with `isError`. A call that the client cancels is interrupted; over HTTP, where requests are independent, a
 * client cancels by closing its request.
 *
 * Each call passes the hooks, middleware, guards and approvals of the runtime, as a call of a model does. No user can
 * be asked about it: calls that need an approval are denied, unless `unattended` says otherwise.
 *
 * A tool that asks (`Ask.approval`, `Ask.form`, `Ask.text`) asks the user of the client, if the client takes questions
 * (elicitation). A form has flat fields: texts, numbers, booleans and choices. With any other client, and for any other
 * form, the question fails with `QuestionUnanswered`, whose message says what to do.
 *
 * **Example** (A program that is an MCP server)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import * as Tool from "effect/ai/Tool"
 * import * as Toolkit from "effect/ai/Toolkit"
 * import { Runtime, Toolset } from "hermes-effect"
 * import { ToolServer } from "hermes-effect/server"
 *
 * const Double = Tool.make("double", {
 *   description: "Doubles a number",
 *   parameters: Schema.Struct({ n: Schema.Finite }),
 *   success: Schema.Struct({ doubled: Schema.Finite })
 * }).annotate(Tool.Readonly, true)
 * const toolkit = Toolkit.make(Double)
 * const maths = Toolset.make("maths", toolkit, toolkit.toLayer({
 *   double: ({ n }) => Effect.succeed({ doubled: n * 2 })
 * }))
 *
 * // The program ends with its input.
 * export const program = ToolServer.serveStdio({ name: "maths" }).pipe(
 *   Effect.provide(Runtime.layer({ tools: [maths] }))
 * )
 * ```
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { Agent, type Service as AgentService } from "../../agent/Agent.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import { version } from "../../base/domain/Version.ts"
import * as CurrentProcess from "../../base/platform/CurrentProcess.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import { LiveAnswers } from "../../tools/CallQuestions.ts"
import * as ClientQuestions from "../../tools/mcp/ClientQuestions.ts"
import * as McpHost from "../../tools/mcp/McpHost.ts"
import { everything, type Selection, ToolRegistry } from "../../tools/ToolRegistry.ts"
import type { BoundTool } from "../../tools/Toolset.ts"

/** Options of a server. */
export interface Options {
  /** Tools of the runtime that are served. By default all. */
  readonly tools?: Selection | undefined
  /** Name of the server for its clients. Defaults to `hermes`. */
  readonly name?: string | undefined
  /** Version of the server for its clients. Defaults to the version of this package. */
  readonly version?: string | undefined
  /** Treatment of calls that need an approval. Defaults to `deny`. */
  readonly unattended?: "deny" | "approve" | undefined
  /** Working directory of the tools. Defaults to the agent's. */
  readonly cwd?: string | undefined
}

/** Services that a server needs. */
export type Needs = Agent | ToolRegistry

/** Returns the JSON Schema of the results of a tool, if they are objects. */
const findOutputSchema = ({ tool }: BoundTool): Readonly<Record<string, unknown>> | undefined => {
  if (Tool.isDynamic(tool)) return undefined
  const { definitions, schema } = Option.getOrElse(
    Option.liftThrowable(() => Schema.toJsonSchemaDocument(Schema.toCodecJson(tool.successSchema)))(),
    () => ({ definitions: {}, schema: {} as Readonly<Record<string, unknown>> })
  )
  return schema["type"] === "object" ? { ...schema, $defs: definitions } : undefined
}

/** Converts stated facts to annotations. Facts that were not stated are left to the client. */
const toAnnotations = ({ facts: { destructive, foreign, idempotent, readonly } }: BoundTool) => ({
  ...(readonly === undefined ? {} : { readOnlyHint: readonly }),
  ...(destructive === undefined ? {} : { destructiveHint: destructive }),
  ...(idempotent === undefined ? {} : { idempotentHint: idempotent }),
  openWorldHint: foreign
})

type Content = McpHost.OfferedResult["content"][number]

const toContent = (part: Prompt.ToolModelOutputPart): Content => {
  if (part.type === "text") return { type: "text", text: part.text }
  const { data, mediaType } = part
  if (data instanceof URL)
    return { type: "resource_link", uri: data.href, name: part.fileName ?? "file", mimeType: mediaType }
  const encoded = typeof data === "string" ? data : Buffer.from(data).toString("base64")
  const uri = `file:///${encodeURIComponent(part.fileName ?? "file")}`
  return mediaType.startsWith("image/")
    ? { type: "image", data: encoded, mimeType: mediaType }
    : { type: "resource", resource: { uri, mimeType: mediaType, blob: encoded } }
}

const offerTool = (agent: AgentService, { cwd, unattended }: Options, bound: BoundTool): McpHost.OfferedTool => {
  const { description, name, parameters } = bound.definition
  const outputSchema = findOutputSchema(bound)
  return {
    name,
    description,
    parameters: { ...parameters },
    readOnly: bound.facts.readonly === true,
    annotations: toAnnotations(bound),
    outputSchema,
    run: (args, askClient) =>
      agent.callTool({ name, args, cwd }).pipe(
        Effect.provideService(LiveAnswers, ClientQuestions.makeLiveAnswers(askClient)),
        Effect.provideService(InteractiveMode, makeUnattended("mcp server", unattended)),
        Effect.map(({ isFailure, modelOutput, output }): McpHost.OfferedResult => {
          const text = Json.toText(output)
          const value = typeof output === "string" ? Option.getOrUndefined(Json.parse(output)) : output
          const isStructured = !isFailure && outputSchema !== undefined && Json.isFields(value)
          return {
            content: modelOutput?.map(toContent) ?? [{ type: "text", text }],
            ...(isStructured ? { structuredContent: { ...value } } : {}),
            // A result that was shortened or replaced does not have the form that the server promised.
            isError: isFailure || (outputSchema !== undefined && !isStructured)
          }
        })
      )
  }
}

const offerTools = Effect.fnUntraced(function* (
  options: Options
): Effect.fn.Return<ReadonlyArray<McpHost.OfferedTool>, ConfigError, Needs> {
  const [agent, registry] = [yield* Agent, yield* ToolRegistry]
  yield* registry.settle
  const { get, names } = yield* registry.snapshot(options.tools ?? everything)
  return names.flatMap((name) => {
    const bound = get(name)
    return bound === undefined ? [] : [offerTool(agent, options, bound)]
  })
})

const readName = ({ name = "hermes", version: own = version }: Options): McpHost.ServerName => ({ name, version: own })

/** Serves the tools over a pair of byte streams until the input ends, which interrupts running calls. */
export const serveStreams = <E>(
  wire: McpHost.Wire<E>,
  options: Options = {}
): Effect.Effect<void, ConfigError | E, Needs> =>
  Effect.flatMap(offerTools(options), (tools) => McpHost.serve(tools, wire, readName(options)))

/**
 * Serves the tools over standard input and output until the input ends. Standard output belongs to the protocol: write
 * everything else to standard error.
 */
export const serveStdio = (options: Options = {}): Effect.Effect<void, ConfigError, Needs> =>
  Effect.suspend(() => {
    const { stdin, stdout } = CurrentProcess.getStandardStreams()
    // Without an encoding, the stream consists of bytes. It fails only if the other end is gone.
    const input = Stream.orElseSucceed(
      Stream.fromAsyncIterable(stdin as AsyncIterable<Uint8Array>, () => "closed" as const),
      () => new Uint8Array()
    )
    return serveStreams({ input, write: (text) => Effect.sync(() => void stdout.write(text)) }, options)
  })

/**
 * Makes a handler of web requests that serves the tools over streamable HTTP, until the scope closes. It checks no keys
 * and no hosts: put it behind the checks of your server.
 */
export const makeHandler = (
  options: Options = {}
): Effect.Effect<(request: Request) => Promise<Response>, ConfigError, Needs | Scope.Scope> =>
  Effect.flatMap(offerTools(options), (tools) => McpHost.makeHandler(tools, readName(options)))

/** Adds the server to a router, at a path such as `/mcp`; see {@link makeHandler}. */
export const layerHttp = ({
  path,
  ...options
}: Options & { readonly path: HttpRouter.PathInput }): Layer.Layer<never, ConfigError, HttpRouter.HttpRouter | Needs> =>
  Layer.unwrap(
    Effect.map(makeHandler(options), (handle) =>
      HttpRouter.add("*", path, (request) =>
        Effect.gen(function* () {
          const web = yield* HttpServerRequest.toWeb(request)
          return HttpServerResponse.fromWeb(
            yield* Effect.promise((signal) => handle(new globalThis.Request(web, { signal })))
          )
        }).pipe(Effect.orElseSucceed(() => HttpServerResponse.empty({ status: 400 })))
      )
    )
  )
