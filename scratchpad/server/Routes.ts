// The HTTP side: a page, and one endpoint that streams a run of the tenant as server-sent events.
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { AgentError, RunEvent } from "../../src/index.ts"
import { Assistant, type OverQuota, Tenant, Tenants } from "./Assistant.ts"

const Question = Schema.Struct({ prompt: Schema.String.check(Schema.isMaxLength(4000)) })

/** What the page gets of an event; the others are none of its business. */
const shown = (event: RunEvent.RunEvent): ReadonlyArray<object> => {
  switch (event._tag) {
    case "TextDelta":
      return [{ text: event.text }]
    case "TextReplaced":
      return [{ replaced: event.text }]
    case "ToolStarted":
      return [{ tool: event.name }]
    case "RunFinished":
      return [{ exit: event.exit }]
    default:
      return []
  }
}

/** The last line of a stream that fails: the policy by its name, anything else without its details. */
const refused = (error: AgentError.AgentError | OverQuota): object =>
  error._tag === "OverQuota"
    ? { error: `${error.tenant} has used up its model calls` }
    : { error: `the run failed: ${error._tag}` }

const line = (data: object): Uint8Array => new TextEncoder().encode(`data: ${JSON.stringify(data)}\n\n`)

const ask = Effect.fn("POST /ask")(
  function* (request: HttpServerRequest.HttpServerRequest) {
    const tenants = yield* Tenants
    const tenant = tenants.get((request.headers["authorization"] ?? "").replace(/^Bearer /, ""))
    if (tenant === undefined) return HttpServerResponse.jsonUnsafe({ error: "unknown key" }, { status: 401 })
    yield* Effect.annotateCurrentSpan("tenant", tenant.name)
    const { prompt } = yield* HttpServerRequest.schemaBodyJson(Question)
    const assistant = yield* Assistant
    const events = assistant.stream({ prompt, context: Tenant.context(tenant) }).pipe(
      Stream.flatMap((event) => Stream.fromIterable(shown(event))),
      Stream.catch((error) => Stream.make(refused(error))),
      Stream.map(line)
    )
    return HttpServerResponse.stream(events, {
      contentType: "text/event-stream",
      headers: { "cache-control": "no-store" }
    })
  },
  Effect.catch((error) =>
    Effect.as(
      Effect.logDebug(error),
      HttpServerResponse.jsonUnsafe({ error: 'send { "prompt": "…" }' }, { status: 400 })
    )
  )
)

const page = `<!doctype html><meta charset="utf-8"><title>Assistant</title>
<form><input name="key" placeholder="Key" type="password"><input name="prompt" placeholder="Question" size="60"><button>Ask</button></form><pre></pre>
<script>
document.querySelector("form").onsubmit = async (submitted) => {
  submitted.preventDefault()
  const given = new FormData(submitted.target), out = document.querySelector("pre")
  out.textContent = ""
  const answer = await fetch("/ask", {
    method: "POST",
    headers: { authorization: "Bearer " + given.get("key"), "content-type": "application/json" },
    body: JSON.stringify({ prompt: given.get("prompt") })
  })
  if (!answer.ok) return out.textContent = (await answer.json()).error
  let rest = ""
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split("\\n\\n")
    rest = lines.pop()
    for (const event of lines.map((line) => JSON.parse(line.slice("data: ".length)))) {
      if (event.replaced !== undefined) out.textContent = event.replaced
      else out.textContent += event.text ?? (event.tool ? "[" + event.tool + "]\\n" : event.error ?? "")
    }
  }
}
</script>`

/** The routes of the application; the agent and its tenants come from outside. */
export const routes = Layer.mergeAll(
  HttpRouter.add("GET", "/", HttpServerResponse.html(page)),
  HttpRouter.add("POST", "/ask", ask)
)
