// What the exporters have sent when the program is stopped from outside, or is closed while much is waiting.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { PreventSchedulerYield } from "effect/Scheduler"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import * as Sender from "../../src/observability/otlp/Sender.ts"
import type { Span } from "../../src/observability/otlp/Span.ts"
import { withWarnings } from "../hooks/support/events.ts"
import { machine, program } from "../support/hermes.ts"
import { eventually } from "../support/terminalTools.ts"
import { collector, names } from "./support/collector.ts"

describe("a program that is stopped", () => {
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    it.live(`by ${signal} sends what was open`, () =>
      Effect.gen(function*() {
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
                PATH: process.env["PATH"], HOME: cwd, HERMES_HOME: home, TERM: "dumb",
                OTEL_EXPORTER_OTLP_ENDPOINT: server.url, OTEL_EXPORTER_OTLP_PROTOCOL: "http/json", OTEL_METRICS_EXPORTER: "none",
                HERMES_LANGFUSE_PUBLIC_KEY: "pk-lf-1", HERMES_LANGFUSE_SECRET_KEY: "sk-lf-1", HERMES_LANGFUSE_BASE_URL: server.url
              }
            })
          ),
          (child) => Effect.sync(() => child.kill("SIGKILL"))
        )
        yield* eventually("the command runs", Effect.sync(() => existsSync(at("started"))))
        child.kill(signal)
        yield* eventually("the program ends", Effect.sync(() => child.exitCode !== null || child.signalCode !== null))
        assert.sameDeepMembers(server.trees().map(names), [
          ["Hermes turn", "LLM call 1", "Tool: terminal"],
          ["invoke_agent hermes", ["step 1", "chat offline", "execute_tool terminal"]]
        ])
      }))
  }
})

describe("Sender", () => {
  const span = (n: number, text = ""): Span => ({
    traceId: "0".repeat(31) + "1", spanId: String(n).padStart(16, "0"), parentSpanId: undefined, name: `s${n}`, start: 1n, end: 2n,
    attributes: { text }, error: undefined
  })
  const sending = (url: string, spans: ReadonlyArray<Span>) =>
    Sender.make({
      label: "test",
      url: `${url}/v1/traces`,
      headers: {},
      remedies: { refused: "", unreachable: "" },
      resource: { "service.name": "test" },
      scope: { name: "test", version: "1" }
    }).pipe(
      // All at once, so that nothing is sent before the last one.
      Effect.flatMap(({ offer }) => Effect.forEach(spans, offer, { discard: true }).pipe(Effect.provideService(PreventSchedulerYield, true))),
      Effect.scoped,
      Effect.provide(FetchHttpClient.layer)
    )

  it.live("never has more waiting than it says; what comes then is dropped, and told once", () =>
    withWarnings((warnings) =>
      Effect.gen(function*() {
        const server = yield* collector()
        yield* sending(server.url, Array.from({ length: Sender.capacity + 100 }, (_, n) => span(n)))
        assert.strictEqual(server.spans().length, Sender.capacity)
        assert.deepStrictEqual(warnings, ["test: traces come faster than they can be sent, and some are dropped"])
      })))

  it.live("large spans go in several requests, none of which is larger than it says unless a single span is", () =>
    Effect.gen(function*() {
      const server = yield* collector()
      const text = "x".repeat(700_000)
      yield* sending(server.url, [...Array.from({ length: 7 }, (_, n) => span(n, text)), span(7, "y".repeat(Sender.maxRequestChars))])
      assert.deepStrictEqual(server.spans().map(({ name }) => name), ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"])
      assert.strictEqual(server.requests.length, 5)
      assert.isTrue(server.requests.slice(0, 4).every(({ body }) => body.length < Sender.maxRequestChars + 1000))
    }))
})
