import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { Agent, Middleware, RunContext, Runtime, Scripted } from "../../src/index.ts"

// What belongs to a request, and how its run may be refused: both stand in the type of the agent.
class Tenant extends RunContext.Key<Tenant, { readonly name: string; readonly modelCalls: number }>()("app/Tenant") {}
class OverQuota extends Schema.TaggedError<OverQuota>()("OverQuota", { tenant: Schema.String }) {}
class Assistant extends Context.Service<Assistant, Agent.Service<OverQuota, Tenant>>()("app/Assistant") {}

const quota = Middleware.wrapModelCall<never, OverQuota, Tenant>({
  name: "quota",
  wrap:
    (next, { apiCallCount }) =>
    (params) =>
      Effect.flatMap(Tenant, ({ modelCalls, name }) =>
        Effect.andThen(apiCallCount > modelCalls ? new OverQuota({ tenant: name }) : Effect.void, next(params))
      )
})

const tenants = new Map([
  ["key-1", { name: "acme", modelCalls: 5 }],
  ["key-2", { name: "globex", modelCalls: 0 }]
])

const ask = Effect.fn("POST /ask")(
  function* (request: HttpServerRequest.HttpServerRequest) {
    const tenant = tenants.get(request.headers["authorization"]?.replace(/^Bearer /, "") ?? "")
    if (tenant === undefined) return HttpServerResponse.empty({ status: 401 })
    const { prompt } = yield* HttpServerRequest.schemaBodyJson(Schema.Struct({ prompt: Schema.String }))
    const assistant = yield* Assistant
    // A client that hangs up interrupts the run, its model call and its tools.
    const events = assistant.stream({ prompt, context: Tenant.context(tenant) }).pipe(
      Stream.filter((event) => event._tag === "TextDelta" || event._tag === "RunFinished"),
      Stream.map((event) => (event._tag === "TextDelta" ? { text: event.text } : { exit: event.exit })),
      Stream.catch(({ _tag }) => Stream.make({ error: _tag })),
      Stream.map((data) => new TextEncoder().encode(`data: ${JSON.stringify(data)}\n\n`))
    )
    return HttpServerResponse.stream(events, { contentType: "text/event-stream" })
  },
  Effect.catchTag(["HttpServerError", "SchemaError"], () => Effect.succeed(HttpServerResponse.empty({ status: 400 })))
)

const application = HttpRouter.add("POST", "/ask", ask).pipe(
  Layer.provideMerge(
    Runtime.make(Assistant, { provider: Scripted.layer([Scripted.complete("Hello.")]), middleware: [quota] })
  )
)

// In an application: `HttpRouter.serve(application)` over `NodeHttpServer.layer`. Here the routes are called without a
// port.
const { dispose, handler } = HttpRouter.toWebHandler(Layer.provide(application, HttpServer.layerServices), {
  disableLogger: true
})
const post = async (key: string) => {
  const body = JSON.stringify({ prompt: "Hello?" })
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" }
  const response = await handler(new Request("http://localhost/ask", { method: "POST", headers, body }))
  console.log([response.status, ...(await response.text()).trim().split("\n\n")].join(" ").trim())
}
for (const key of ["key-1", "key-2", "none"]) await post(key)
await dispose()
// => 200 data: {"text":"Hello."} data: {"exit":"text_response"}
// => 200 data: {"error":"OverQuota"}
// => 401
