import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { Agent, RunRecord, Runtime, SessionStore } from "../../src/index.ts"
import { RunCursor, RunWatch } from "../../src/kit/entry/sessions.ts"

// GET /runs/SESSION: the events behind `Last-Event-ID`. The run is over, or active in any process that has the store.
const readRun = Effect.fn("GET /runs/:session")(function* (request: HttpServerRequest.HttpServerRequest) {
  const { session = "" } = yield* HttpRouter.params
  const after = RunCursor.parseCursor(request.headers["last-event-id"] ?? "")
  const turnId = after?.turnId ?? (yield* RunWatch.findActive(session))
  if (turnId === undefined) return HttpServerResponse.empty({ status: 204 })
  const services = yield* Effect.context<RunRecord.RunRecord | SessionStore.SessionStore>()
  let position = after ?? RunCursor.makeStart(turnId)
  const events = RunWatch.watchRun(session, { turnId, after }).pipe(
    Stream.map((event) => {
      position = RunCursor.advancePosition(position, event)
      const data = event._tag === "TextDelta" ? event.text : event._tag
      return `id: ${RunCursor.formatCursor(position)}\ndata: ${data}\n\n`
    }),
    Stream.catch(({ message }) => Stream.make(`event: error\ndata: ${message}\n\n`)),
    Stream.provideContext(services)
  )
  return HttpServerResponse.stream(Stream.encodeText(events), { contentType: "text/event-stream" })
})

const application = HttpRouter.add("GET", "/runs/:session", readRun).pipe(
  Layer.provideMerge(Runtime.layer({ store: SessionStore.layerMemory }))
)

// A run, whose reader sees three characters of its answer and leaves.
const cursorOf = Effect.gen(function* () {
  const { sessionId, turnId } = yield* Agent.run({ prompt: "Reply exactly hello" })
  const seen = [{ _tag: "StepStarted", step: 1 } as const, { _tag: "TextDelta", text: "hel" } as const]
  return {
    sessionId,
    cursor: RunCursor.formatCursor(seen.reduce(RunCursor.advancePosition, RunCursor.makeStart(turnId)))
  }
})

const routes = HttpRouter.add(
  "POST",
  "/ask",
  Effect.map(cursorOf, (body) => HttpServerResponse.jsonUnsafe(body))
)
const { dispose, handler } = HttpRouter.toWebHandler(
  Layer.provide(Layer.provideMerge(routes, application), HttpServer.layerServices),
  { disableLogger: true }
)
const asked = await handler(new Request("http://localhost/ask", { method: "POST" }))
const { cursor, sessionId } = (await asked.json()) as { readonly cursor: string; readonly sessionId: string }
const headers = { "last-event-id": cursor }
const rest = await handler(new Request(`http://localhost/runs/${sessionId}`, { headers }))
console.log(Array.from((await rest.text()).matchAll(/^data: (.*)$/gmu), ([, data]) => data).join(" "))
console.log((await handler(new Request("http://localhost/runs/none"))).status)
await dispose()
// => lo RunFinished
// => 204
