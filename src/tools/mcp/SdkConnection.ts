/** A connection to a server through the official client: its requests and their results. */
import type { Client, ContentBlock, ReadResourceResult, RequestOptions } from "@modelcontextprotocol/client"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Queue from "effect/Queue"
import * as TraceContext from "../../hooks/TraceContext.ts"
import type { Block, Connection, McpError } from "./McpConnection.ts"
import type * as Questions from "./ServerRequests.ts"
import * as SdkFailure from "./SdkFailure.ts"
import type { ServerConfig } from "./ServerConfig.ts"

/** Converts the content of a resource. */
const toContentBlock = (content: ReadResourceResult["contents"][number]): Block =>
  "text" in content
    ? { type: "text", text: content.text }
    : { type: "media", mimeType: content.mimeType ?? "application/octet-stream", data: content.blob }

const toBlock = (block: ContentBlock): Block => {
  switch (block.type) {
    case "text":
      return { type: "text", text: block.text }
    case "image":
    case "audio":
      return { type: "media", mimeType: block.mimeType, data: block.data }
    case "resource":
      return toContentBlock(block.resource)
    case "resource_link":
      return { type: "link", uri: block.uri, name: block.name }
  }
}

type SdkRequest<A> = (
  client: Client,
  options: RequestOptions,
  trace: { readonly _meta?: Record<string, unknown> }
) => Promise<A>

/** A client of one server. */
interface ConnectedClient {
  readonly config: ServerConfig
  readonly client: Client
  readonly questions: Questions.Questions
}

/** Sends a request to the server. The parameters of the request begin with the trace of the fiber. */
const sendRequest = <A>(
  { client, config }: ConnectedClient,
  doing: string,
  request: SdkRequest<A>
): Effect.Effect<A, McpError> =>
  Effect.flatMap(TraceContext.current, (trace) =>
    Effect.tryPromise({
      try: (signal) =>
        request(client, { signal, timeout: config.timeoutMillis }, trace === undefined ? {} : { _meta: { ...trace } }),
      catch: SdkFailure.toMcpError(config.name, doing)
    })
  )

const callTool =
  (connected: ConnectedClient): Connection["callTool"] =>
  (name, args, onProgress) =>
    connected.questions.during(
      sendRequest(connected, `the call of ${name}`, (client, options, trace) =>
        client.callTool(
          { ...trace, name, arguments: { ...args } },
          {
            ...options,
            // A server that reports progress is alive: its timeout restarts, up to ten times the timeout of a silent
            // server.
            resetTimeoutOnProgress: true,
            maxTotalTimeout: connected.config.timeoutMillis * 10,
            ...(onProgress === undefined
              ? {}
              : {
                  onprogress: ({ message, progress, total }) =>
                    onProgress(message ?? (total === undefined ? String(progress) : `${progress}/${total}`))
                })
          }
        )
      ).pipe(
        Effect.map((result) => ({
          blocks: result.content.map(toBlock),
          structured: result.structuredContent,
          isError: result.isError === true
        }))
      )
    )

const listPrompts = (connected: ConnectedClient): Connection["listPrompts"] =>
  Effect.map(
    sendRequest(connected, "listing its prompts", (client, options, trace) => client.listPrompts(trace, options)),
    ({ prompts }) =>
      prompts.map(({ arguments: args = [], description, name }) => ({
        name,
        description,
        arguments: args.map((argument) => ({ name: argument.name, required: argument.required === true }))
      }))
  )

export const makeConnection = (
  connected: ConnectedClient,
  ended: Deferred.Deferred<McpError>,
  toolsChanged: Queue.Queue<void>
): Connection => {
  const { client, config } = connected
  const capabilities = client.getServerCapabilities()
  const info = client.getServerVersion()
  return {
    protocol: client.getNegotiatedProtocolVersion() ?? "unknown",
    session: () => client.transport?.sessionId,
    server: info === undefined ? config.name : `${info.name} ${info.version}`,
    offers: {
      tools: capabilities?.tools !== undefined,
      resources: capabilities?.resources !== undefined,
      prompts: capabilities?.prompts !== undefined
    },
    listTools: Effect.map(
      sendRequest(connected, "listing its tools", (client, options) => client.listTools(undefined, options)),
      ({ tools }) => tools
    ),
    callTool: callTool(connected),
    listResources: Effect.map(
      sendRequest(connected, "listing its resources", (client, options, trace) => client.listResources(trace, options)),
      ({ resources }) => resources
    ),
    readResource: (uri) =>
      Effect.map(
        sendRequest(connected, `reading ${uri}`, (client, options, trace) =>
          client.readResource({ ...trace, uri }, options)
        ),
        ({ contents }) => contents.map(toContentBlock)
      ),
    listPrompts: listPrompts(connected),
    getPrompt: (name, args) =>
      Effect.map(
        sendRequest(connected, `the prompt ${name}`, (client, options, trace) =>
          client.getPrompt({ ...trace, name, arguments: { ...args } }, options)
        ),
        ({ messages }) => messages.map(({ content }) => toBlock(content))
      ),
    ping: Effect.asVoid(
      Effect.tryPromise({
        try: (signal) => client.ping({ signal, timeout: config.connectTimeoutMillis }),
        catch: SdkFailure.toMcpError(config.name, "asking whether it is there")
      })
    ),
    toolsChanged,
    closed: Deferred.await(ended)
  }
}
