// `--output-schema`: an answer that is JSON and fits, asked for once more where it is not.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { machine } from "../../support/hermesInProcess.ts"
import * as playedModel from "../../support/playedModel.ts"

const schema = {
  type: "object",
  properties: { color: { enum: ["red", "blue"] }, count: { type: "integer", minimum: 1 } },
  required: ["color"],
  additionalProperties: false
}

describe("--output-schema", () => {
  it.live("prints JSON that fits; one that does not is sent back once, and the usage of both counts", () =>
    Effect.gen(function* () {
      const { at, hermes, keep, put } = yield* machine
      const { seen, url } = yield* playedModel.make({
        "does not fit the JSON Schema: Missing": [{ text: '{"color":"blue"}' }],
        "does not fit the JSON Schema": [{ text: "still not" }],
        "at once": [{ text: '```json\n{"color":"red","count":2}\n```' }],
        "second time": [{ text: '{"count":1}' }],
        never: [{ text: "I would say red." }]
      })
      keep(
        "config.yaml",
        `model: { provider: custom, default: m, base_url: "${url}/v1", api_key: key-of-this-test-only, context_length: 100000 }\n`
      )
      put("schema.json", JSON.stringify(schema))
      const ask = (prompt: string, ...more: ReadonlyArray<string>) =>
        hermes(["-z", prompt, "--output-schema", "schema.json", "--usage-file", "usage.json", ...more])

      const first = yield* ask("at once", "--output-last-message", "last.json")
      assert.deepStrictEqual([first.code, first.stdout, first.stderr], [0, '{"color":"red","count":2}\n', ""])
      assert.strictEqual(readFileSync(at("last.json"), "utf8"), '{"color":"red","count":2}\n')
      // The provider binds the answer, so that the prompt stays as it was written.
      assert.deepInclude(seen[0]?.response_format, { type: "json_schema" })
      assert.deepStrictEqual(seen[0]?.response_format?.json_schema.schema, schema)
      assert.notInclude(JSON.stringify(seen[0]?.messages.at(-1)), "JSON Schema")

      const second = yield* ask("second time")
      assert.deepStrictEqual([second.code, second.stdout], [0, '{"color":"blue"}\n'], second.stderr)
      assert.deepInclude(JSON.parse(readFileSync(at("usage.json"), "utf8")), {
        input_tokens: 200,
        output_tokens: 20,
        api_calls: 2,
        completed: true
      })

      const never = yield* ask("never", "--output-last-message", "never.json")
      assert.deepStrictEqual([never.code, never.stdout], [2, ""])
      assert.match(
        never.stderr,
        /^Error: the answer does not match --output-schema: the answer is not JSON\. [^\n]+\n$/
      )
      assert.isFalse(existsSync(at("never.json")))
      assert.deepInclude(JSON.parse(readFileSync(at("usage.json"), "utf8")), {
        input_tokens: 200,
        api_calls: 2,
        completed: false,
        failed: true
      })

      const asked = seen.length
      put("broken.json", "{")
      put("odd.json", JSON.stringify({ if: { type: "string" }, then: { minLength: 1 } }))
      for (const [args, said] of [
        [
          ["--output-schema", "broken.json"],
          "--output-schema broken.json is not a JSON Schema: expected a JSON object"
        ],
        [["--output-schema", "odd.json"], "--output-schema odd.json is not a valid JSON Schema"],
        [["--output-schema", "none.json"], "--output-schema none.json cannot be read"],
        [["--output-last-message", "x"], "--output-last-message also needs --output-schema"]
      ] as const) {
        const { code, stderr } = yield* hermes(["-z", "at once", ...args])
        assert.strictEqual(code, 2)
        assert.include(stderr, said)
      }
      assert.strictEqual(seen.length, asked, "no model is asked")
    })
  )
})
