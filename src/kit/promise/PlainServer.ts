/**
 * An MCP server from plain tools.
 *
 * **Example** (A program that is an MCP server)
 *
 * ```ts
 * import { mcpHandler, tool } from "hermes-effect/promise"
 * import * as z from "zod"
 *
 * const double = tool({
 *   name: "double",
 *   description: "Doubles a number",
 *   input: z.object({ n: z.number() }),
 *   execute: ({ n }) => ({ doubled: n * 2 }),
 *   readonly: true
 * })
 *
 * // Over standard input and output: await serveMcp({ tools: [double] })
 * const { close, fetch } = await mcpHandler({ tools: [double] })
 * console.log((await fetch(new Request("http://localhost/mcp"))).status)
 * await close()
 * // => 405
 * ```
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type * as ToolServer from "../../serve/server/ToolServer.ts"
import type * as Toolset from "../../tools/Toolset.ts"
import { quiet, toToolset, whenLoaded } from "./CreateHermes.ts"
import { fromCause, HermesError } from "./HermesError.ts"
import { type BuiltinNeeds, checkToolList, isServer } from "./HermesOptions.ts"
import * as Options from "./PlainOptions.ts"
import type { HermesTool } from "./StandardTool.ts"

/** Options of an MCP server. */
export interface McpServerOptions extends Omit<ToolServer.Options, "tools"> {
  /** Tools created from functions (`tool`), and toolsets of the package. */
  readonly tools: ReadonlyArray<HermesTool | Toolset.Toolset<never, BuiltinNeeds>>
}

/** An MCP server over HTTP. */
export interface McpHandler {
  /** Answers a request. It checks no keys and no hosts: put it behind the checks of your server. */
  readonly fetch: (request: Request) => Promise<Response>
  /** Interrupts running calls. */
  readonly close: () => Promise<void>
}

const serverOptions: Options.Checks<McpServerOptions> = {
  tools: (value, at) =>
    Array.isArray(value) && value.some(isServer) ? [`${at}: serve tools, not MCP servers`] : checkToolList(value, at),
  name: Options.name,
  version: Options.name,
  unattended: Options.makeChoiceCheck(["deny", "approve"]),
  cwd: Options.text
}
const checkServer = Options.makeMembersCheck("option of an MCP server", serverOptions, ["tools"])

/** Throws a `ConfigError` that names each mistake. */
const checkOptions = (options: McpServerOptions): void =>
  Options.readPlainly("ConfigError", "the options", () => {
    const problems = checkServer(options, "")
    if (problems.length > 0) throw new HermesError("ConfigError", problems.join("; "))
  })

const makeRuntime = ({ tools }: McpServerOptions) =>
  Layer.provideMerge(
    whenLoaded(({ layer }) => layer({ tools: tools.map(toToolset) })),
    quiet
  )

/** Applications without a server do not load the HTTP modules of Effect. */
const loadToolServer = () => import("../../serve/server/ToolServer.ts")

const runToEnd = async <A>(effect: Effect.Effect<A, unknown>, signal?: AbortSignal): Promise<A> => {
  const exit = await Effect.runPromiseExit(effect, signal === undefined ? {} : { signal })
  if (Exit.isSuccess(exit)) return exit.value
  throw fromCause(exit.cause, signal?.reason)
}

/**
 * Serves tools to an MCP client over standard input and output, until the input ends. Standard output belongs to the
 * protocol: write everything else to standard error.
 */
export const serveMcp = async (options: McpServerOptions): Promise<void> => {
  checkOptions(options)
  const { tools: _, ...more } = options
  const { serveStdio } = await loadToolServer()
  await runToEnd(Effect.provide(serveStdio(more), makeRuntime(options)))
}

/** Makes a handler of web requests that serves tools to MCP clients over streamable HTTP. */
export const mcpHandler = async (options: McpServerOptions): Promise<McpHandler> => {
  checkOptions(options)
  const { tools: _, ...more } = options
  const { makeHandler } = await loadToolServer()
  const scope = await Effect.runPromise(Scope.make())
  const handler = Effect.flatMap(Layer.build(makeRuntime(options)), (context) =>
    Effect.provide(makeHandler(more), context)
  )
  return {
    fetch: await runToEnd(Scope.provide(handler, scope)),
    close: () => Effect.runPromise(Scope.close(scope, Exit.void))
  }
}
