// An agent behind HTTP, for two tenants: `node scratchpad/server/main.ts`, then open the address and ask with the key
// `acme` or `globex`. Every user of the machine reaches the loopback: in an application the keys are long random texts,
// here they are easy to type.
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Layer from "effect/Layer"
import * as HttpRouter from "effect/http/HttpRouter"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Otlp from "effect/observability/Otlp"
import * as OtlpSerialization from "effect/observability/OtlpSerialization"
import { createServer } from "node:http"
import { Offline, Runtime, RunTelemetry } from "../../src/index.ts"
import { Assistant, Invoices, invoices, quota, Tenants } from "./Assistant.ts"
import { routes } from "./Routes.ts"

// A model: `routes: [{ provider: "anthropic", model: "claude-sonnet-4-6", apiKey }]` in place of `provider`.
const assistant = Runtime.make(Assistant, {
  provider: Offline.layer(),
  tools: [invoices],
  middleware: [quota],
  instructions: "Answer questions about invoices, briefly.",
  ...RunTelemetry.make({ agentName: "invoices" })
})

const application = HttpRouter.serve(routes).pipe(
  Layer.provide(assistant),
  Layer.provide(Invoices.layerMemory({ acme: ["A-1: 120 €", "A-2: 80 €"], globex: ["G-7: 9 €"] })),
  Layer.provide(
    Layer.succeed(
      Tenants,
      new Map([
        ["acme", { name: "acme", modelCalls: 10 }],
        ["globex", { name: "globex", modelCalls: 1 }]
      ])
    )
  ),
  // Spans of requests, runs, steps, model calls and tools go where OTEL_EXPORTER_OTLP_ENDPOINT says, and nowhere when
  // it is not set.
  Layer.provide(Otlp.layerFromConfig()),
  Layer.provide(OtlpSerialization.layerJson),
  Layer.provide(FetchHttpClient.layer),
  Layer.provide(NodeHttpServer.layer(createServer, { port: Number(process.env["PORT"] ?? 3000), host: "127.0.0.1" }))
)

NodeRuntime.runMain(Layer.launch(application))
