// `hermes hooks` in this process, over real programs in a home of their own.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { ProcessVariables } from "../../../src/base/platform/ProcessVariables.ts"
import * as Payloads from "../../../src/hooks/Payloads.ts"
import { machine } from "../../support/hermes.ts"
import { cli } from "./capture.ts"

const desk = Effect.map(machine, (one) => ({
  ...one,
  hooks: (...argv: ReadonlyArray<string>) =>
    Effect.provideService(cli("hooks", ...argv), ProcessVariables, {
      PATH: process.env["PATH"],
      HOME: one.cwd,
      HERMES_HOME: one.home
    })
}))

describe("hermes hooks", () => {
  it.live("lists, tries, examines and revokes the shell hooks of the configuration", () =>
    Effect.gen(function* () {
      const { hermes, hooks, keep, put } = yield* desk
      const guard = put("guard.sh", '#!/bin/sh\ncat > /dev/null\necho \'{"decision":"block","reason":"not today"}\'\n')
      const broken = put("broken.sh", "#!/bin/sh\nexit 3\n")
      keep(
        "config.yaml",
        `hooks:\n  pre_tool_call:\n    - command: sh ${guard}\n      matcher: terminal\n      timeout: 9\n  post_tool_call:\n    - command: sh ${broken}\n`
      )
      assert.deepStrictEqual(JSON.parse((yield* hooks("list", "--json")).stdout), [
        {
          event: "pre_tool_call",
          command: `sh ${guard}`,
          matcher: "terminal",
          timeout: 9,
          sandbox: "full",
          consent: "unseen"
        },
        {
          event: "post_tool_call",
          command: `sh ${broken}`,
          matcher: null,
          timeout: 60,
          sandbox: "full",
          consent: "unseen"
        }
      ])
      const unseen = yield* hooks("test", "pre_tool_call")
      assert.match(unseen.stdout, /not run: consent is "unseen"/)
      const examined = yield* hooks("doctor")
      assert.strictEqual(examined.code, 1)
      assert.match(examined.stdout, /^problem {2}pre_tool_call .*\n {2}not approved: it does not run/m)

      assert.strictEqual((yield* hermes(["chat", "-q", "Reply exactly ok", "-Q", "--accept-hooks"])).code, 0)
      const tried = yield* hooks("test", "pre_tool_call", "--for-tool", "terminal")
      assert.match(tried.stdout, /exited with 0 .*it says \{"action":"block","message":"not today"\}/)
      assert.match(
        (yield* hooks("test", "pre_tool_call", "--for-tool", "read_file")).stdout,
        /does not match this event/
      )
      assert.match((yield* hooks("doctor")).stdout, /^problem {2}post_tool_call .*\n {2}exited with 3/m)

      assert.match((yield* hooks("revoke", `sh ${guard}`)).stdout, /^revoked sh /)
      assert.strictEqual((yield* hooks("revoke", `sh ${guard}`)).code, 2)
      assert.match((yield* hooks()).stdout, /^pre_tool_call .* unseen$/m)
    })
  )

  it.live("refuses what it can not use", () =>
    Effect.gen(function* () {
      const { at, hooks, put } = yield* desk
      put("list.json", "[]")
      assert.match((yield* hooks()).stdout, /^No shell hooks/)
      const unknown = yield* hooks("test", "pre_tol_call")
      assert.deepInclude(unknown, { code: 2, stdout: "" })
      assert.match(unknown.stderr, /did you mean pre_tool_call\?/)
      assert.match(
        (yield* hooks("test", "pre_tool_call", "--payload-file", at("list.json"))).stderr,
        /is not a JSON object/
      )
      assert.strictEqual((yield* hooks("test", "pre_tool_call", "--payload-file", at("none.json"))).code, 2)
      assert.strictEqual((yield* hooks("schema", "nonsense")).code, 2)
    })
  )

  it.live("prints and writes the schemas of all events", () =>
    Effect.gen(function* () {
      const { at, hooks } = yield* desk
      const all = Schema.decodeUnknownSync(Schema.Record(Schema.String, Schema.Json))(
        JSON.parse((yield* hooks("schema")).stdout)
      )
      assert.deepStrictEqual(Object.keys(all).toSorted(), Payloads.names.toSorted())
      const one = JSON.parse((yield* hooks("schema", "post_tool_call")).stdout)
      assert.deepStrictEqual(one, all["post_tool_call"])
      assert.deepInclude(one, {
        $schema: "https://json-schema.org/draft/2020-12/schema",
        title: "post_tool_call",
        type: "object"
      })
      const written = yield* hooks("schema", "-o", at("schemas"))
      assert.strictEqual(written.code, 0, written.stderr)
      assert.deepStrictEqual(readdirSync(at("schemas")), Payloads.names.map((name) => `${name}.schema.json`).toSorted())
      assert.deepStrictEqual(JSON.parse(readFileSync(join(at("schemas"), "post_tool_call.schema.json"), "utf8")), one)
    })
  )
})
