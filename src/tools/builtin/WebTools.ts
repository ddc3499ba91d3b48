/**
 * The toolset `web`: `web_search`, which uses the first engine with an API key, and `web_extract`, which reads pages
 * itself.
 *
 * **Details**
 *
 * A page that cannot be read is an error in its own result and does not fail the call. A page is converted to readable
 * text. A text of more than {@link summariseAbove} characters is summarized by the side model, or cut if the runtime
 * has no side model. A text of more than {@link refuseAbove} characters is refused. Without an API key, `web_search` is
 * not available.
 *
 * **Example** (An agent with web access)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime, WebTools } from "hermes-effect"
 * import { SearchProvider } from "hermes-effect/tools/web"
 *
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(
 *   Effect.provideService(SearchProvider.WebSearch, SearchProvider.fromEnvironment((name) => process.env[name]))
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer({ tools: [WebTools.toolset] })))).text)
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §2.3, `hermes-llm.md` §19.5.
 */
import * as Effect from "effect/Effect"
import * as Toolset from "../Toolset.ts"
import { extractTool, searchTool } from "./web/WebToolDefinitions.ts"

export { extractTool, refuseAbove, searchTool, summariseAbove } from "./web/WebToolDefinitions.ts"

/** The toolset `web`. */
export const toolset: Toolset.Toolset = Toolset.fromBound<never, never>(
  "web",
  [searchTool, extractTool],
  Effect.flatMap(
    Effect.promise(() => import("./web/WebHandlers.ts")),
    (handlers) => handlers.toolset.bind
  )
)
