/** Definitions of the tools `web_search` and `web_extract`, as models see them, and their limits. */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import { Timeout } from "../../Annotations.ts"
import { ToolContext } from "../../ToolContext.ts"
import * as Problem from "../file/Problem.ts"

/** Maximum number of characters of a page that reach the model unchanged. */
export const summariseAbove = 5_000
/** Maximum number of characters of a page; a longer page is refused. */
export const refuseAbove = 2_000_000

/** Maximum number of pages of one call. */
export const maxUrls = 5
/** Maximum number of results of one search. */
export const maxResults = 5
const Found = Schema.Struct({ title: Schema.String, url: Schema.String, description: Schema.String })

/** The tool `web_search`. */
export const searchTool = Tool.make("web_search", {
  description:
    `Searches the web. Returns up to ${maxResults} results with title, url and description; read one with ` +
    "web_extract.",
  parameters: Schema.Struct({ query: Schema.String }),
  success: Schema.Struct({ success: Schema.Literal(true), data: Schema.Struct({ web: Schema.Array(Found) }) }),
  failure: Problem.Failure,
  failureMode: "return"
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Destructive, false)
  .annotate(Tool.OpenWorld, true)
  .annotate(Timeout, Duration.infinity)

const Extracted = Schema.Struct({
  url: Schema.String,
  title: Schema.String,
  content: Schema.String,
  error: Schema.NullOr(Schema.String)
})

/** The tool `web_extract`. */
export const extractTool = Tool.make("web_extract", {
  description:
    `Reads up to ${maxUrls} web pages (http or https) and returns their text as Markdown. ` +
    "Long pages are condensed.",
  parameters: Schema.Struct({ urls: Schema.Array(Schema.String) }),
  success: Schema.Struct({ results: Schema.Array(Extracted) }),
  failure: Problem.Failure,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Destructive, false)
  .annotate(Tool.OpenWorld, true)
  .annotate(Timeout, Duration.infinity)
