// Variables that leave the environment of a process, and those that come back for a while.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { isSecretName } from "../../../src/base/domain/CredentialNames.ts"
import { takeOver } from "../../../src/base/platform/ProcessVariables.ts"
import { machine, run } from "../../support/hermes.ts"

const scratch = (variables: Record<string, string>) =>
  Effect.acquireRelease(
    Effect.sync(() => Object.assign(process.env, variables)),
    () => Effect.sync(() => Object.keys(variables).forEach((name) => Reflect.deleteProperty(process.env, name)))
  )

describe("variables that hold secrets", () => {
  const secret = [
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
    "MY_SECRET",
    "STRIPE_SECRET_KEY",
    "my_db_password",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "HERMES_LANGFUSE_SECRET_KEY",
    "HERMES_MODEL__API_KEY",
    "PROXY_AUTHORIZATION",
    "SESSION_COOKIE",
    "GITHUB_APP_PRIVATE_KEY"
  ]
  const plain = [
    "PATH",
    "HOME",
    "HERMES_LIMITS",
    "HERMES_HOME",
    "NODE_OPTIONS",
    "OPENAI_BASE_URL",
    "OPENAI_ORG_ID",
    "SSH_AUTH_SOCK",
    "GIT_ASKPASS",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_ACCESS_KEY_ID",
    "HERMES_MAX_TOKENS",
    "HTTPS_PROXY",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "TERM",
    "TZ"
  ]
  for (const name of secret) it(`${name} does`, () => assert.isTrue(isSecretName(name)))
  for (const name of plain) it(`${name} does not`, () => assert.isFalse(isSecretName(name)))
})

describe("takeOver", () => {
  it.effect("keeps the values, hides more on demand, and lends them for as long as a scope is open", () =>
    Effect.gen(function* () {
      yield* scratch({ HV_FIRST: "one", HV_LATER: "two", HV_PLAIN: "three" })
      const own = takeOver((name) => name === "HV_FIRST")
      const shown = () => ["HV_FIRST", "HV_LATER", "HV_PLAIN"].filter((name) => process.env[name] !== undefined)
      assert.deepStrictEqual(shown(), ["HV_LATER", "HV_PLAIN"])
      assert.deepInclude(own.variables, { HV_FIRST: "one", HV_LATER: "two", HV_PLAIN: "three" })
      own.hide(["HV_LATER", "HV_ABSENT"])
      assert.deepStrictEqual(shown(), ["HV_PLAIN"])
      assert.deepStrictEqual(["HV_FIRST", "HV_LATER", "HV_PLAIN"].map(own.isHidden), [true, true, false])
      // What was hidden for its value is no command's, whatever exceptions say.
      assert.deepInclude(own.ofCommands(), { HV_FIRST: "one", HV_PLAIN: "three" })
      assert.notProperty(own.ofCommands(), "HV_LATER")
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* own.lend(["HV_LATER", "HV_LATER", "HV_PLAIN", "HV_ABSENT"])
          yield* Effect.scoped(own.lend(["HV_LATER"]))
          assert.deepStrictEqual(shown(), ["HV_LATER", "HV_PLAIN"])
          assert.strictEqual(process.env["HV_LATER"], "two")
          assert.notProperty(own.ofCommands(), "HV_LATER")
        })
      )
      assert.deepStrictEqual(shown(), ["HV_PLAIN"])
    })
  )

  it.live.skipIf(process.platform !== "linux")(
    "leaves nothing of a value in what the kernel shows, lent or not, and the rest as it was",
    () =>
      Effect.gen(function* () {
        const { cwd, home, put } = yield* machine
        const module = new URL("../../../src/base/platform/ProcessVariables.ts", import.meta.url).href
        const script = put(
          "look.mjs",
          `
        import { readFileSync } from "node:fs"
        import * as Effect from ${JSON.stringify(import.meta.resolve("effect/Effect"))}
        import { takeOver } from ${JSON.stringify(module)}
        const environ = () => readFileSync("/proc/self/environ", "latin1").split("\\0").filter((entry) => entry !== "")
        const before = environ()
        const own = takeOver((name) => name.startsWith("HV_"))
        const after = environ()
        process.title = "renamed"
        await Effect.runPromise(Effect.scoped(Effect.andThen(own.lend(["HV_ONE"]), Effect.sync(() =>
          console.log(JSON.stringify({ before, after, lent: environ(), value: process.env.HV_ONE }))))))
      `
        )
        const env = { HV_ONE: "a=b", HV_Ü: "größe", HV_EMPTY: "", HV_LONG: "x".repeat(50_000), OTHER: "HV_ONE=a=b" }
        const { stderr, stdout } = yield* run(process.execPath, [script], { cwd, home, env })
        const { after, before, lent, value } = JSON.parse(stdout || `{"error":${JSON.stringify(stderr)}}`)
        assert.strictEqual(before.filter((entry: string) => entry.startsWith("HV_")).length, 4)
        assert.deepStrictEqual(
          after,
          before.filter((entry: string) => !entry.startsWith("HV_"))
        )
        assert.include(after, "OTHER=HV_ONE=a=b")
        assert.deepStrictEqual(lent, after)
        assert.strictEqual(value, "a=b")
      })
  )
})
