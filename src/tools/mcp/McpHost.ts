/**
 * Offers this program's tools to other programs: an MCP server on a pair of byte streams, based on the official server
 * package.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { CallToolResult, ListToolsResult, Transport } from "@modelcontextprotocol/server"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import { redactKeys } from "../../base/domain/Redaction.ts"
import { Secrets } from "../../base/domain/Secrets.ts"
import { version } from "../../base/domain/Version.ts"
import * as OptionalPackage from "../../base/platform/OptionalPackage.ts"
import * as Framing from "./Framing.ts"
import * as McpCalls from "./McpCalls.ts"

/** Result of an offered tool, in the form of the protocol. */
export type OfferedResult = Pick<CallToolResult, "content" | "isError" | "structuredContent">

/** One tool offered to other programs. */
export interface OfferedTool {
  readonly name: string
  readonly description: string
  readonly parameters: Readonly<Record<string, unknown>>
  readonly readOnly: boolean
  /** Hints of the tool about its effects. By default, a tool that is not read-only counts as destructive. */
  readonly annotations?: ListToolsResult["tools"][number]["annotations"]
  /** JSON Schema of the object that the tool returns, if it always returns one. */
  readonly outputSchema?: Readonly<Record<string, unknown>> | undefined
  /**
   * Runs the tool and returns the text of the result or of the failure, or a result in the form of the protocol.
   * `askClient` asks the user of the client; `undefined` for a client that takes no questions.
   */
  readonly run: (
    args: Readonly<Record<string, unknown>>,
    askClient?: McpCalls.AskClient
  ) => Effect.Effect<string | OfferedResult, string>
}

/** Name and version that a server states. */
export interface ServerName {
  readonly name: string
  readonly version: string
}

const ownName: ServerName = { name: "hermes", version }

/** The transport of a server. */
export interface Wire<E> {
  readonly input: Stream.Stream<Uint8Array, E>
  readonly write: (text: string) => Effect.Effect<void>
}

const maxMessageBytes = 10 * 1024 * 1024

type Hide = (text: string) => string

const toListedTool =
  (hide: Hide) =>
  ({
    annotations,
    description,
    name,
    outputSchema,
    parameters,
    readOnly
  }: OfferedTool): ListToolsResult["tools"][number] => ({
    name,
    description: hide(description),
    inputSchema: { ...parameters, type: "object" },
    ...(outputSchema === undefined ? {} : { outputSchema: { ...outputSchema, type: "object" } }),
    annotations: annotations ?? { readOnlyHint: readOnly, destructiveHint: !readOnly }
  })

const toCallResult = (exit: Exit.Exit<string | OfferedResult, string>, hide: Hide): CallToolResult => {
  // The copy has the form of the original.
  if (Exit.isSuccess(exit) && typeof exit.value !== "string") return Json.toPlainData(exit.value, hide) as OfferedResult
  const text = Exit.isSuccess(exit)
    ? String(exit.value)
    : Option.getOrElse(Exit.findErrorOption(exit), () => Cause.pretty(exit.cause))
  return { content: [{ type: "text", text: hide(text) }], isError: Exit.isFailure(exit) }
}

const sdk = OptionalPackage.load("serving MCP needs the package", ["@modelcontextprotocol/server"], () =>
  import("@modelcontextprotocol/server").catch(OptionalPackage.rethrowImport)
)

/** Creates MCP servers for the tools. The signal aborts their running calls. */
const makeServers = Effect.fnUntraced(function* (
  tools: ReadonlyArray<OfferedTool>,
  ending: AbortSignal,
  serverName: ServerName
) {
  const { inputRequired, ProtocolError, ProtocolErrorCode, Server } = yield* sdk
  const services = yield* Effect.context<never>()
  const calls = McpCalls.makeCalls<string | OfferedResult, string>(services, inputRequired)
  yield* Effect.addFinalizer(() => calls.close)
  const secrets = yield* Secrets
  // Texts of failures and defects may contain secrets, so they are masked before they leave the program.
  const hide: Hide = (text) => redactKeys(text, secrets)
  return () => {
    const server = new Server({ ...serverName }, { capabilities: { tools: {} } })
    server.setRequestHandler("tools/list", () => ({ tools: tools.map(toListedTool(hide)) }))
    server.setRequestHandler("tools/call", async ({ params }, { mcpReq }) => {
      const tool = tools.find(({ name }) => name === params.name)
      if (tool === undefined)
        throw new ProtocolError(
          ProtocolErrorCode.InvalidParams,
          hide(`There is no tool "${params.name}". List them with tools/list.`)
        )
      // The client's own revision says in each request, or once for its connection, that it takes questions.
      const canAsk = server.getClientCapabilities()?.elicitation !== undefined
      const round = await calls.answerRequest(mcpReq, ending, (askClient) =>
        tool.run(params.arguments ?? {}, canAsk ? askClient : undefined)
      )
      switch (round._tag) {
        case "Asks":
          return round.result
        case "Ended":
          return toCallResult(round.exit, hide)
        case "Over":
          return toCallResult(Exit.fail(`The call of "${params.name}" is over. Call the tool again.`), hide)
      }
    })
    return server
  }
})

/** Answers requests over HTTP, each with a separate server, until the scope closes. */
export const makeHandler = Effect.fnUntraced(function* (
  tools: ReadonlyArray<OfferedTool>,
  serverName = ownName
): Effect.fn.Return<(request: Request) => Promise<Response>, ConfigError, Scope.Scope> {
  const { createMcpHandler } = yield* sdk
  const ending = new AbortController()
  const made = yield* makeServers(tools, ending.signal, serverName)
  const { close, fetch } = createMcpHandler(made, { maxRequestBodySize: maxMessageBytes })
  yield* Effect.addFinalizer(() =>
    Effect.andThen(
      Effect.sync(() => ending.abort()),
      Effect.promise(close)
    )
  )
  return (request) => fetch(request)
})

/** Serves until the input ends, then interrupts running calls. */
export const serve = Effect.fn("McpHost.serve")(function* <E>(
  tools: ReadonlyArray<OfferedTool>,
  { input, write }: Wire<E>,
  serverName = ownName
) {
  const services = yield* Effect.context<never>()
  const ending = new AbortController()
  const transport: Transport = {
    start: () => Promise.resolve(),
    close: () => Promise.resolve(),
    send: (message) => Effect.runPromiseWith(services)(write(`${JSON.stringify(message)}\n`))
  }
  const server = (yield* makeServers(tools, ending.signal, serverName))()
  yield* Effect.acquireRelease(
    Effect.promise(() => server.connect(transport)),
    () => Effect.sync(() => ending.abort())
  )
  const frame = Framing.make(maxMessageBytes)
  yield* Stream.runForEach(input, (chunk) =>
    Effect.sync(() => {
      for (const line of frame(chunk)) {
        const message = line._tag === "Line" ? Option.getOrUndefined(Json.parse(line.text)) : undefined
        // The server validates messages. Input that is not a message has no sender to answer.
        if (message !== undefined) transport.onmessage?.(message as Parameters<NonNullable<Transport["onmessage"]>>[0])
      }
    })
  )
}, Effect.scoped)
