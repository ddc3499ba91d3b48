/**
 * The MCP servers of a runtime. They are connected when the runtime starts, and each provides a toolset while it is
 * connected.
 *
 * **Details**
 *
 * All servers are connected in parallel, and the runtime waits for each server for at most its `connect_timeout`. A
 * server that cannot be connected is skipped with a warning and stops neither the other servers nor the agent. After a
 * temporary failure it is retried in the background, and its tools are available once it connects.
 *
 * The tools of a server are listed when it is connected and when it reports that they changed; otherwise the registry's
 * snapshot stays the same object. A lost server is reconnected up to {@link maxReconnects} times, with growing delays.
 * Its tools remain in the meantime, and their calls report the state. If the server cannot be reconnected, its tools
 * are removed. An idle server is pinged at intervals (`keepalive`); without an answer it counts as lost.
 *
 * A server with more than {@link lazyAbove} tools is represented by one search tool. The tools found by a search are
 * available from the next step on.
 *
 * Source: `hermes-product.md` §2.4.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { Values } from "../../base/config/Settings.ts"
import { ToolRegistry } from "../ToolRegistry.ts"
import type * as Toolset from "../Toolset.ts"
import { type Connection, McpConnector, McpError } from "./McpConnection.ts"
import * as ServerTools from "./ServerTools.ts"
import * as ServerConfig from "./ServerConfig.ts"

/** Maximum number of failed attempts to reconnect a lost server. */
export const maxReconnects = 5

/** Maximum number of tools of one server that are offered directly. */
export const lazyAbove = 64

/** State of a server. */
export interface Status {
  readonly name: string
  readonly state: "connected" | "failed" | "disabled" | "reconnecting"
  readonly tools: number
  /** Description of the problem; `undefined` if there is no problem. */
  readonly message: string | undefined
}

/** The MCP servers of a runtime. */
export interface Service {
  readonly status: Effect.Effect<ReadonlyArray<Status>>
}

/** Creates one server's place in the registry. Its current toolset is replaced as a whole. */
const makePlace = Effect.fnUntraced(function* (parent: Scope.Scope) {
  const registry = yield* ToolRegistry
  let current: Scope.Closeable | undefined
  const leave = Effect.suspend(() => (current === undefined ? Effect.void : Scope.close(current, Exit.void)))
  return {
    leave,
    put: Effect.fnUntraced(function* (toolset: Toolset.Toolset) {
      const scope = yield* Scope.fork(parent, "sequential")
      const bound = yield* Scope.provide(toolset.bind, scope)
      yield* leave
      current = scope
      yield* Scope.provide(registry.register({ ...toolset, bind: Effect.succeed(bound) }), scope)
      return bound.length
    }, Effect.uninterruptible)
  }
})

/**
 * Returns true if a server that could not be connected may become available: it may be starting, or depend on something
 * that is.
 */
const canPass = ({ transport }: ServerConfig.ServerConfig, { reason }: McpError): boolean =>
  reason === "timeout" || reason === "closed" || (reason === "start" && transport._tag === "Http")

/** Returns true if the failure of a ping means that the server does not respond. */
const isSilence = ({ reason }: McpError): boolean => reason === "timeout" || reason === "closed" || reason === "start"

/** Wait before a lost or failed connection is opened again. */
const firstReconnect = "1 second"

/**
 * Schedule of the attempts to connect again: 1 second after the first one failed, doubled with each further failure.
 */
const reconnecting = Schedule.exponential("1 second").pipe(Schedule.upTo({ times: maxReconnects - 1 }))

/** A connection and the scope that closes it. */
interface OpenConnection {
  readonly connected: Connection
  readonly scope: Scope.Closeable
}

/** A server whose connection is kept open. */
interface SupervisedServer extends Effect.Success<ReturnType<typeof makePlace>> {
  readonly config: ServerConfig.ServerConfig
  readonly tell: (status: Omit<Status, "name">) => void
  readonly connector: McpConnector["Service"]
  /** Scope of the connections. */
  readonly parent: Scope.Closeable
  readonly turns: Semaphore.Semaphore
  /** Names of the tools that searches found. */
  readonly wanted: Set<string>
  connection: Connection | undefined
  /** Number of running calls. */
  calls: number
}

const use =
  (server: SupervisedServer): ServerTools.Use =>
  (work) =>
    server.turns.withPermit(
      Effect.suspend(() => {
        const connected = server.connection
        return connected === undefined
          ? Effect.fail(
              new McpError({
                server: server.config.name,
                reason: "closed",
                message:
                  `MCP server "${server.config.name}" disconnected and is reconnecting: continue without it, or try ` +
                  "again later"
              })
            )
          : Effect.suspend(() => {
              server.calls++
              return work(connected)
            }).pipe(Effect.ensuring(Effect.sync(() => server.calls--)))
      })
    )

const refreshTools = Effect.fnUntraced(function* (server: SupervisedServer, connected: Connection) {
  const { config, wanted } = server
  const descriptors = connected.offers.tools ? yield* connected.listTools : []
  const own = ServerTools.makeEntries(config, use(server), descriptors)
  const utilities = ServerTools.makeUtilities(config, use(server), connected)
  const offerTools = (list: ReadonlyArray<ServerTools.Entry>) => server.put(ServerTools.makeToolset(config, list))
  if (own.length > lazyAbove) {
    const lazy: ServerTools.Entry = ServerTools.makeSearchTool(config, own, wanted, (found) =>
      offerTools([lazy, ...found, ...utilities])
    )
    yield* offerTools([lazy, ...own.filter(({ tool }) => wanted.has(tool.name)), ...utilities])
  } else {
    yield* offerTools([...own, ...utilities])
  }
  server.tell({ state: "connected", tools: own.length + utilities.length, message: undefined })
})

/** Opens a connection in a separate scope and adds its tools to the registry. */
const connectServer = Effect.fnUntraced(function* (server: SupervisedServer) {
  const scope = yield* Scope.fork(server.parent, "sequential")
  const connected = yield* server.connector.connect(server.config).pipe(
    Effect.tap((connected) => refreshTools(server, connected)),
    Scope.provide(scope),
    Effect.onExit((exit) => (Exit.isFailure(exit) ? Scope.close(scope, exit) : Effect.void))
  )
  server.connection = connected
  return { connected, scope }
})

const reconnectServer = (server: SupervisedServer) =>
  Effect.delay(Effect.retry(connectServer(server), reconnecting), firstReconnect)

const followChanges = (server: SupervisedServer, connected: Connection) =>
  Queue.take(connected.toolsChanged).pipe(
    Effect.andThen(refreshTools(server, connected)),
    Effect.catchTag("McpError", ({ message }) => Effect.logWarning(`${message}; its tools stay as they were`)),
    Effect.forever
  )

/** Waits until the server no longer responds. A busy server may respond slowly. */
const waitForSilence = Effect.fnUntraced(function* (
  server: SupervisedServer,
  { ping }: Connection
): Effect.fn.Return<McpError> {
  const { config } = server
  if (config.keepaliveMillis === 0) return yield* Effect.never
  const answered = Effect.catchIf(
    ping,
    (error) => !isSilence(error),
    () => Effect.void
  )
  return yield* Effect.suspend(() => (server.calls > 0 ? Effect.void : answered)).pipe(
    Effect.schedule(Schedule.spaced(config.keepaliveMillis)),
    Effect.andThen(Effect.never),
    Effect.flip
  )
})

/** Waits for the end of a connection and opens another one. Fails if reconnecting is not possible. */
const keepConnected = Effect.fnUntraced(function* (server: SupervisedServer, { connected, scope }: OpenConnection) {
  const { message } = yield* Effect.raceAllFirst([
    connected.closed,
    followChanges(server, connected),
    waitForSilence(server, connected)
  ])
  server.connection = undefined
  server.tell({ state: "reconnecting", tools: 0, message })
  yield* Effect.logWarning(`${message}: connecting it again`)
  yield* Scope.close(scope, Exit.void)
  return yield* reconnectServer(server)
})

const stayConnected = Effect.fnUntraced(
  function* (server: SupervisedServer, first: OpenConnection) {
    let now = first
    while (true) now = yield* keepConnected(server, now)
  },
  (supervision, server) =>
    Effect.catchTag(supervision, "McpError", (error) =>
      Effect.andThen(server.leave, giveUp(server, error, "its tools are left out"))
    )
)

const giveUp = ({ tell }: SupervisedServer, { message }: McpError, what: string) => {
  tell({ state: "failed", tools: 0, message })
  return Effect.logWarning(`${message}; ${what}`)
}

const connectLater = (server: SupervisedServer) =>
  reconnectServer(server).pipe(
    Effect.tap(() => Effect.logDebug(`MCP server "${server.config.name}" is connected`)),
    Effect.flatMap((first) => stayConnected(server, first)),
    Effect.catchTag("McpError", (error) => giveUp(server, error, "it is not tried again"))
  )

/** Connects one server and keeps it connected in the background. */
const supervise = Effect.fnUntraced(function* (
  config: ServerConfig.ServerConfig,
  tell: (status: Omit<Status, "name">) => void
) {
  const connector = yield* McpConnector
  const whole = yield* Effect.scope
  // Connections are closed after the fiber that would reconnect them.
  const parent = yield* Scope.fork(whole, "sequential")
  const server: SupervisedServer = {
    ...(yield* makePlace(parent)),
    config,
    tell,
    connector,
    parent,
    turns: yield* Semaphore.make(config.parallel ? Number.MAX_SAFE_INTEGER : 1),
    wanted: new Set(),
    connection: undefined,
    calls: 0
  }
  yield* Effect.matchEffect(connectServer(server), {
    onSuccess: (now) => Effect.forkIn(stayConnected(server, now), whole),
    onFailure: (error) =>
      canPass(config, error)
        ? Effect.andThen(
            giveUp(server, error, "its tools are left out, and it is tried again"),
            Effect.forkIn(connectLater(server), whole)
          )
        : giveUp(server, error, "its tools are left out")
  })
})

/** The MCP servers of a runtime. */
export class McpServers extends Context.Service<McpServers, Service>()("hermes-effect/tool/McpServers") {}

/** Provides the servers of a configuration. */
export const layer = (sections: Values["mcpServers"]): Layer.Layer<McpServers, never, McpConnector | ToolRegistry> =>
  Layer.effect(
    McpServers,
    Effect.gen(function* () {
      const states = new Map<string, Status>()
      const makeStatusSetter =
        (name: string) =>
        (status: Omit<Status, "name">): void => {
          states.set(name, { name, ...status })
        }
      const startServer = Effect.fnUntraced(function* ([name, section]: readonly [string, ServerConfig.Section]) {
        const tell = makeStatusSetter(name)
        if (!section.enabled) return tell({ state: "disabled", tools: 0, message: undefined })
        yield* Effect.matchEffect(ServerConfig.fromSection(name, section), {
          onFailure: ({ message }) => {
            tell({ state: "failed", tools: 0, message })
            return Effect.logWarning(message)
          },
          onSuccess: (config) => supervise(config, tell)
        })
      })
      yield* Effect.forEach(Object.entries(sections), startServer, { concurrency: "unbounded", discard: true })
      return { status: Effect.sync(() => Object.keys(sections).flatMap((name) => states.get(name) ?? [])) }
    })
  )
