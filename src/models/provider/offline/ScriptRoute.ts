/** The route of all scripts: `Scripted` reports it, and `ScriptPlayback` makes its requests and answers. */
import type { Route } from "../../../base/domain/Route.ts"

/** Route of all scripts. */
export const route: Route = { provider: "scripted", model: "scripted", apiMode: "chat_completions" }
