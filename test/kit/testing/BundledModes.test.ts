// Every bundled middleware in every mode: nothing runs twice, and the redactor removes what it promises to.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { join } from "node:path"
import * as BuiltinMiddleware from "../../../src/agent/builtin/BuiltinMiddleware.ts"
import * as PiiRedaction from "../../../src/agent/builtin/PiiRedaction.ts"
import * as Conformance from "../../../src/kit/testing/Conformance.ts"
import * as ModeRules from "../../../src/kit/testing/ModeRules.ts"
import type * as Middleware from "../../../src/middleware/Middleware.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

/** Parameters of the middleware that needs some. */
const parameters = (directory: string): Readonly<Record<string, unknown>> => ({
  "llm-failover": { fallback_providers: [{ name: "backup", llm_config: { base_url: "http://127.0.0.1:9/v1" } }] },
  "context-compaction": { threshold: 0.9 },
  "tool-filter": { deny: ["none"] },
  reminder: { text: "Be brief." },
  timeout: { seconds: 60 },
  "rate-limit": { limit: 1_000, window_seconds: 60 },
  audit: { file_path: join(directory, "audit.jsonl") },
  approve: { tools: ["none"] }
})

const runModes = (entry: Middleware.Contained, more: Omit<ModeRules.TestedModes, "runtime">) =>
  Effect.map(
    Conformance.runRules(
      ModeRules.rules,
      Layer.succeed(ModeRules.Subject, {
        ...more,
        runtime: (parts) => Runtime.layer({ ...parts, middleware: [entry] })
      })
    ),
    (results) => results.flatMap(({ broken }) => (broken === undefined ? [] : [broken.message]))
  )

describe("the bundled middleware in every mode", () => {
  it.live.each(BuiltinMiddleware.names)("%s runs nothing twice", (name) =>
    Effect.gen(function* () {
      const made = BuiltinMiddleware.find(name)?.fromUnknown(parameters(yield* temporaryDirectory)[name])
      assert.isDefined(made)
      if (made === undefined) return
      const entry = Result.getOrThrowWith(made, ({ message }) => new Error(message))
      assert.deepStrictEqual(yield* runModes(entry, { sinks: [] }), [])
    })
  )

  it.live("pii-redaction masks answers in every mode, in results, events and sessions", () =>
    Effect.gen(function* () {
      const secret = "ada@example.org"
      assert.deepStrictEqual(yield* runModes(PiiRedaction.make(), { secret, sinks: ["output", "store"] }), [])
    })
  )
})
