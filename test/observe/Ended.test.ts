// What the exporters have sent when the program is stopped from outside, or is closed while much is waiting.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { PreventSchedulerYield } from "effect/Scheduler"
import * as OtlpResource from "effect/observability/OtlpResource"
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import * as ExportQueue from "../../src/observe/otlp/ExportQueue.ts"
import * as SpanExport from "../../src/observe/otlp/SpanExport.ts"
import * as Transport from "../../src/observe/otlp/Transport.ts"
import type { Span } from "../../src/observe/RunSpans.ts"
import type { Run } from "../../src/observe/RunTree.ts"
import { withWarnings } from "../hooks/support/events.ts"
import { machine, program, withoutSandbox } from "../support/hermes.ts"
import { eventually } from "../support/waiting.ts"
import { webServer } from "../support/webServer.ts"
import { collector, names } from "./support/collector.ts"

describe("a program that is stopped", () => {
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    it.live(`by ${signal} sends what was open`, () =>
      Effect.gen(function* () {
        const server = yield* collector()
        const { at, cwd, home, keep } = yield* machine
        keep("config.yaml", "plugins:\n  enabled:\n    - observability/otel\n    - observability/langfuse\n")
        const query = `Use the terminal tool exactly once to run touch ${at("started")} && sleep 60. Then reply with exactly: late.`
        const child = yield* Effect.acquireRelease(
          Effect.sync(() =>
            spawn(process.execPath, [program, "chat", "-q", query, "--yolo"], {
              cwd,
              stdio: "ignore",
              env: {
                PATH: process.env["PATH"],
                HOME: cwd,
                HERMES_HOME: home,
                TERM: "dumb",
                ...withoutSandbox,
                HERMES_MODEL__PROVIDER: "offline",
                OTEL_EXPORTER_OTLP_ENDPOINT: server.url,
                OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
                OTEL_METRICS_EXPORTER: "none",
                HERMES_LANGFUSE_PUBLIC_KEY: "pk-lf-1",
                HERMES_LANGFUSE_SECRET_KEY: "sk-lf-1",
                HERMES_LANGFUSE_BASE_URL: server.url
              }
            })
          ),
          (child) => Effect.sync(() => child.kill("SIGKILL"))
        )
        yield* eventually(
          "the command runs",
          Effect.sync(() => existsSync(at("started")))
        )
        child.kill(signal)
        yield* eventually(
          "the program ends",
          Effect.sync(() => child.exitCode !== null || child.signalCode !== null)
        )
        assert.sameDeepMembers(server.trees().map(names), [
          ["Hermes turn", "LLM call 1", "Tool: terminal"],
          ["invoke_agent hermes", ["step 1", "chat offline", "execute_tool terminal"]]
        ])
      })
    )
  }
})

describe("SpanExport", () => {
  const run: Run = {
    kind: "run",
    sessionId: "s",
    turnId: "t",
    startedAt: 1,
    start: undefined,
    endedAt: 2,
    end: undefined,
    child: undefined,
    messages: [],
    steps: [],
    sideTasks: [],
    asides: [],
    children: []
  }
  const span = (n: number, text = ""): Span => ({
    node: run,
    traceId: "0".repeat(31) + "1",
    spanId: String(n).padStart(16, "0"),
    parentSpanId: undefined,
    sampled: true,
    name: `s${n}`,
    kind: "internal",
    startedAt: 1,
    endedAt: 2,
    order: n,
    attributes: { text },
    events: [],
    outcome: { _tag: "Done" }
  })
  const sending = (url: string, spans: ReadonlyArray<Span>, limits = { shutdownMillis: 5000, timeoutMillis: 5000 }) =>
    SpanExport.make({
      url: `${url}/v1/traces`,
      headers: {},
      encoding: "json",
      resource: OtlpResource.make({ serviceName: "test" }),
      shutdownMillis: limits.shutdownMillis,
      transport: { timeoutMillis: limits.timeoutMillis, told: new Set(), warning: ({ _tag }) => `test: ${_tag}` }
    }).pipe(
      // All at once, so that nothing is sent before the last one.
      Effect.map((send) => spans.forEach(send)),
      Effect.provideService(PreventSchedulerYield, true),
      Effect.scoped
    )

  it.live(
    "a collector that never answers is sent a bounded number of requests; what comes then is dropped, and told once",
    () =>
      withWarnings((warnings) =>
        Effect.gen(function* () {
          const server = yield* collector(() => "hang")
          const text = "x".repeat(ExportQueue.maxRequestBytes - 1000)
          yield* sending(
            server.url,
            Array.from({ length: Transport.maxInFlight + Transport.maxWaiting + 5 }, (_, n) => span(n, text)),
            { shutdownMillis: 1000, timeoutMillis: 60_000 }
          )
          assert.isAtMost(server.requests.length, Transport.maxInFlight)
          assert.deepStrictEqual(
            warnings.filter((line) => line === "test: TooMany"),
            ["test: TooMany"]
          )
        })
      )
  )

  it.live("exporters one after another use one connection", () =>
    Effect.gen(function* () {
      const ports = new Set<number | undefined>()
      const url = yield* webServer(({ socket }, response) => {
        ports.add(socket.remotePort)
        response.end()
      })
      for (let n = 0; n < 4; n++) {
        yield* sending(url, [span(n)])
        // A connection is free a moment after its answer.
        yield* Effect.sleep("20 millis")
      }
      assert.strictEqual(ports.size, 1)
    })
  )

  it.live("large spans go in several requests, none of which is larger than it says unless a single span is", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const text = "x".repeat(700_000)
      yield* sending(server.url, [
        ...Array.from({ length: 7 }, (_, n) => span(n, text)),
        span(7, "y".repeat(ExportQueue.maxRequestBytes))
      ])
      assert.deepStrictEqual(
        server
          .spans()
          .map(({ name }) => name)
          .toSorted(),
        ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"]
      )
      assert.strictEqual(server.requests.length, 5)
      assert.strictEqual(
        server.requests.filter(({ body }) => body.length < ExportQueue.maxRequestBytes + 10_000).length,
        5
      )
    })
  )
})
